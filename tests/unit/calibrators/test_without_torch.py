"""What must work where torch is not installed: predicting with a fitted network."""

import subprocess
import sys

import numpy as np
import pytest

from monocal.calibrators import calibrator, registry
from monocal.core.errors import MonocalWarning
from monocal.lab.simulator import simulate_log

SMALL = {
    "umc": {"size": "small"},
    "fac": {"hidden": (32,)},
    "sbcr": {"hidden": (32, 16)},
    "mcnet": {"hidden": (32,)},
    "desc": {"hidden": (16,), "n_dimensions": 4},
    "adacalib": {"candidate_bins": (5, 10)},
}


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


NO_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, *others):
        if name.split(".")[0] == "torch":
            raise ImportError(name)

sys.meta_path.insert(0, NoTorch())
"""
READ_STATE = """
import numpy as np
from monocal.calibrators import calibrator
from monocal.calibrators.contract import CalibratorState

def state(file, values):
    with np.load(file) as kept:
        return CalibratorState({name.replace("|", "/"): kept[name] for name in kept}, values)
"""


def test_fitted_calibrators_predict_without_torch(tmp_path):
    log = simulate_log(4_000, seed=1)
    logits, features = [-1.0, 0.5], [[1, 1, 1, 1, 1, 1], [0, 9, 3, 2, 4, 1]]
    code, expected = [NO_TORCH, READ_STATE], []
    for method, arguments in SMALL.items():
        one = calibrator(method, **arguments, n_epochs=1, show_progress=False)
        one.fit(log.logits, log.labels, features=log.features, scores_are="logit")
        state, file = one.state(), str(tmp_path / f"{method}.npz")
        np.savez(file, **{name.replace("/", "|"): array for name, array in state.arrays.items()})
        code += [
            f"one = calibrator({method!r}, **{one.get_params(deep=False)!r})",
            f"one.restore(state({file!r}, {state.values!r}))",
            f"print(one.predict({logits}, features={features}).tolist())",
        ]
        expected.append(str(one.predict(logits, features=features).tolist()))
    assert run_python("\n".join(code)).splitlines() == expected


def test_the_default_method_is_one_that_is_there(monkeypatch):
    assert calibrator("auto").name == "umc"
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.warns(MonocalWarning, match="pip install 'monocal\\[neural\\]'"):
        assert calibrator("auto").name == "wide_logistic"
