"""What an import, or a first call, does not load: seconds and megabytes that nobody asked for."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "numba", "pandas", "polars", "sklearn", "matplotlib", "altair", "optuna", "lightgbm", "pyspark")
NETWORKS = ("torch", "numba")

LOADS_NONE_OF = {
    "import monocal": HEAVY,
    "import monocal; monocal.CalibrationDisplay; monocal.report": ("matplotlib",),
    "import monocal; monocal.methods()": NETWORKS,
    "import monocal; monocal.calibrator('platt')": NETWORKS,
    "import monocal.evaluation.evaluate": (*NETWORKS, "pandas", "pyarrow", "sklearn", "matplotlib"),
    "import monocal.serving": ("starlette", "uvicorn", "msgspec", "sklearn", "torch"),
    "import monocal.lab.rankers": NETWORKS,
    "from monocal.lab.simulator import simulate_log; simulate_log(10)": (*NETWORKS, "pandas", "pyarrow"),
    # a worker of Spark has no place for compiled loops before it has made one
    **{f"import monocal.spark.{name}": ("numba",) for name in ("apply", "evaluate", "fit")},
}


def assert_loads_none_of(names, code):
    script = f"import sys\n{code}\nprint([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("code", LOADS_NONE_OF)
def test_an_import_loads_nothing_heavy(code):
    assert_loads_none_of(LOADS_NONE_OF[code], code)


def test_statistical_model_saves_loads_and_predicts_without_torch(tmp_path):
    code = f"""
import monocal
log = {{"p": [0.1, 0.3, 0.2, 0.4] * 9, "y": [0, 1, 0, 0] * 9, "site": ["a", "b"] * 18}}
model = monocal.fit(log, method="wide_logistic", score="p", label="y", fields=["site"])
model.save({str(tmp_path / "m")!r})
monocal.load({str(tmp_path / "m")!r}).predict(log)
"""
    assert_loads_none_of(NETWORKS, code)
