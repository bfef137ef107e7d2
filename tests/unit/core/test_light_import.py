import subprocess
import sys

import pytest

HEAVY = ("torch", "numba", "pandas", "polars", "sklearn", "matplotlib", "altair", "optuna", "lightgbm", "pyspark")


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_monocal_loads_nothing_heavy():
    assert loaded_after("import monocal") == set()


def test_plots_load_matplotlib_when_they_are_drawn():
    assert "matplotlib" not in loaded_after("import monocal; monocal.CalibrationDisplay; monocal.report")


@pytest.mark.parametrize("code", ["import monocal; monocal.methods()", "import monocal; monocal.calibrator('platt')"])
def test_listing_methods_loads_neither_torch_nor_numba(code):
    assert not loaded_after(code) & {"torch", "numba"}


def test_statistical_model_saves_loads_and_predicts_without_torch(tmp_path):
    code = f"""
import monocal
log = {{"p": [0.1, 0.3, 0.2, 0.4] * 9, "y": [0, 1, 0, 0] * 9, "site": ["a", "b"] * 18}}
model = monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["site"])
model.save({str(tmp_path / "m")!r})
monocal.load({str(tmp_path / "m")!r}).predict(log)
"""
    assert not loaded_after(code) & {"torch", "numba"}
