"""monocal export."""

import pytest

import monocal
from monocal.calibrators import calibrator

FIELDS = "site_id,ad_id,country,hour,position,device"


def test_export_proves_itself(monocal_command, model_folder, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    found = monocal_command("export", model_folder, "--out", tmp_path / "model.onnx", "--json").json
    assert (tmp_path / "model.onnx").is_file()
    assert found["largest_difference"] <= 1e-6
    assert found["outputs"] == ["click_calibrated"]


def test_export_says_how_far_a_neural_model_is_from_predict(monocal_command, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    few = monocal.simulate_log(2_000).table()  # enough for weights: the graph is asked here, not the fit
    for method, accepted in (("umc", "1e-06"), ("umc_concat", "1e-04")):
        small = calibrator(method, size="small", n_epochs=1)
        model = monocal.fit(few, method=small, score="pctr", label="click", fields=FIELDS.split(","))
        folder = model.save(tmp_path / method)
        ended = monocal_command("export", folder, "--to", "onnx", "--out", tmp_path / "model.onnx", "--n-nodes", "64")
        assert ended.code == 0
        assert f"(accepted: {accepted})" in ended.err
        assert ("taken at 64 nodes" in ended.err) == (method == "umc_concat")
