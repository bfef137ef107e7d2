"""The method that CONTRIBUTING.md shows: installed from the page, found by its entry point, held to every law."""

import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import monocal
from monocal.calibrators import calibrator
from monocal.models.onnx import export_onnx
from monocal.testing.calibrator_laws import LAWS

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
(SHOWN,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FIELDS = ["site_id", "country"]


@pytest.fixture(autouse=True, scope="module")
def installed(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    (place / "deep_platt.py").write_text(SHOWN, encoding="utf-8")
    metadata = place / "deep_platt-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: deep-platt\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[monocal.calibrators]\ndeep_platt = deep_platt:DeepPlattCalibrator\n")
    sys.path.insert(0, str(place))
    yield
    sys.path.remove(str(place))
    sys.modules.pop("deep_platt", None)


def test_it_is_one_short_file():
    assert len(SHOWN.splitlines()) <= 80


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
def test_law(law):
    law(calibrator("deep_platt"))


def test_it_is_fitted_saved_loaded_and_exported_by_name(tmp_path):
    log = monocal.simulate_log(6_000, seed=1).table()
    model = monocal.fit(log, method="deep_platt", score="pctr", label="click", fields=FIELDS)
    loaded = monocal.load(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.predict(log), model.predict(log))
    path = export_onnx(loaded, tmp_path / "model.onnx", inputs="ids").path
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    scores = np.unique(np.concatenate([np.linspace(1e-6, 1 - 1e-6, 4001), 0.2 + np.arange(500) * np.spacing(0.2)]))
    (answers,) = session.run(None, {"pctr": scores, "features": np.tile([[3, 2]], (len(scores), 1))})
    assert np.diff(answers).min() >= 0.0
