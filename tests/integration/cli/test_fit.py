"""monocal fit."""

import numpy as np
import pytest

import monocal

FIELDS = "site_id,ad_id,country,hour,position,device"
COLUMNS = ("--score", "pctr", "--label", "click")


def test_all_rows_are_fitted_with_the_bits_of_python(monocal_command, log_file, tmp_path):
    ended = monocal_command(
        *("fit", log_file, *COLUMNS, "--fields", FIELDS, "--method", "wide_logistic"),
        *("--time", "timestamp", "--out", tmp_path / "model"),
    )
    assert ended.code == 0
    assert f"fitted 20,000 rows and saved the model to {tmp_path / 'model'}" in ended.err
    columns = {"score": "pctr", "label": "click", "fields": FIELDS.split(","), "time": "timestamp"}
    again = monocal.fit(str(log_file), method="wide_logistic", **columns)
    assert monocal.load(tmp_path / "model").fingerprint == again.fingerprint


def test_without_fields_the_option_is_named(monocal_command, log_file, tmp_path):
    ended = monocal_command("fit", log_file, *COLUMNS, "--method", "wide_logistic", "--out", tmp_path / "m")
    assert ended.code == 0
    assert "no fields: the score alone was calibrated; --fields auto takes" in ended.err
    assert monocal.load(tmp_path / "m").field_names == ()


def test_several_tasks_with_missing_labels(monocal_command, videos_file, tmp_path):
    ended = monocal_command(
        *("fit", videos_file, "--tasks", "click:pctr", "--tasks", "view_given_click:pcvr", "--tasks", "both:pctcvr"),
        *("--method", "platt", "--out", tmp_path / "m", "--json"),
    )
    assert ended.json == {"out": str(tmp_path / "m"), "fields": [], "n_rows": 20_000}
    assert monocal.load(tmp_path / "m").task_names == ("click", "view_given_click", "both")
    judged = monocal_command("evaluate", tmp_path / "m", videos_file, "--json").json["tasks"]
    assert judged["view_given_click"]["before"]["n_rows"] < judged["click"]["before"]["n_rows"]


@pytest.mark.extras
def test_set_is_always_the_methods(monocal_command, log_file, tmp_path):
    """Names that the fit has as well: its bootstrap's seed, its own bound of rare values, its choice of a method."""
    given = ("fit", log_file, *COLUMNS, "--fields", "site_id,device")
    small = ("--method", "umc", "--set", "size=small", "--set", "n_epochs=3", "--set", "carry=none")
    answers = []
    for seed in (1, 2):
        out = tmp_path / f"umc{seed}"
        ended = monocal_command(*given, *small, "--set", f"seed={seed}", "--set", "min_count=50", "--out", out)
        assert ended.code == 0, ended.err
        model = monocal.load(out)
        assert (model.task().calibrator.seed, model.task().calibrator.min_count) == (seed, 50)
        answers.append(model.predict(str(log_file)))
    assert np.any(answers[0] != answers[1])
    inner = ("--method", "per_segment", "--set", "method=histogram", "--set", "options={n_bins=5}", "--set", "field=1")
    assert monocal_command(*given, *inner, "--out", tmp_path / "segments").code == 0
    fitted = monocal.load(tmp_path / "segments").task().calibrator
    assert (fitted.method, fitted.options, fitted.field) == ("histogram", {"n_bins": 5}, 1)
    wrong = monocal_command(*given, *small, "--set", "min_count=0", "--out", tmp_path / "wrong")
    assert "error: --set min_count: got 0" in wrong.err
