"""monocal fit."""

import numpy as np
import pytest

import monocal

FIELDS = "site_id,ad_id,country,hour,position,device"
COLUMNS = ("--score", "pctr", "--label", "click")


def test_fits_judges_and_saves(monocal_command, log_file, tmp_path):
    ended = monocal_command(
        *("fit", log_file, *COLUMNS, "--fields", FIELDS, "--method", "wide_logistic"),
        *("--time", "timestamp", "--out", tmp_path / "model"),
    )
    assert ended.code == 0
    assert "split by time: fitted on 16,000 rows with timestamp" in ended.err
    assert "held out the 4,000 rows from" in ended.err
    assert "log_loss" in ended.out
    assert "mfrce" in ended.out
    assert "better" in ended.out
    model = monocal.load(tmp_path / "model")
    assert model.field_names == tuple(FIELDS.split(","))
    assert model.info["n_rows"] == 16_000
    assert model.info["holdout"]["metrics"]["click"]["pcoc"]["after"] == pytest.approx(1.0, abs=0.3)


def test_refit_saves_the_model_of_all_rows_with_the_judgement(monocal_command, log_file, tmp_path):
    ended = monocal_command("fit", log_file, *COLUMNS, "--method", "platt", "--refit", "--out", tmp_path / "m")
    assert "fitted again on all rows" in ended.err
    info = monocal.load(tmp_path / "m").info
    assert (info["n_rows"], info["holdout"]["n_test"], info["holdout"]["refitted"]) == (20_000, 4_000, True)


def test_without_fields_it_proposes_them_with_the_command(monocal_command, log_file, tmp_path, monkeypatch):
    arguments = ["fit", str(log_file), *COLUMNS, "--method", "wide_logistic", "--out", str(tmp_path / "m")]
    monkeypatch.setattr("sys.argv", ["monocal", *arguments])
    ended = monocal_command(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert "most values occur once" in ended.err
    assert "--fields user_id,site_id,ad_id,country,hour,position,device" in ended.err
    assert "--fields auto" in ended.err
    assert not (tmp_path / "m").exists()


def test_fields_auto_takes_the_proposal(monocal_command, log_file, tmp_path):
    ended = monocal_command(
        *("fit", log_file, *COLUMNS, "--time", "timestamp", "--fields", "auto"),
        *("--method", "wide_logistic", "--out", tmp_path / "m"),
    )
    assert ended.code == 0
    assert "fields: user_id, site_id, ad_id, country, hour, position, device" in ended.err


def test_fields_none_goes_without(monocal_command, log_file, tmp_path):
    arguments = ("--fields", "none", "--method", "wide_logistic", "--out", tmp_path / "m")
    assert monocal_command("fit", log_file, *COLUMNS, *arguments).code == 0
    assert monocal.load(tmp_path / "m").field_names == ()


def test_several_tasks_with_missing_labels(monocal_command, videos_file, tmp_path):
    ended = monocal_command(
        *("fit", videos_file, "--tasks", "click:pctr", "--tasks", "view_given_click:pcvr", "--tasks", "both:pctcvr"),
        *("--method", "platt", "--out", tmp_path / "m", "--json"),
    )
    assert ended.code == 0
    found = ended.json
    assert list(found["tasks"]) == ["click", "view_given_click", "both"]
    assert found["tasks"]["view_given_click"]["before"]["n_rows"] < found["tasks"]["click"]["before"]["n_rows"]
    assert monocal.load(tmp_path / "m").task_names == ("click", "view_given_click", "both")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--score", "pctr", "--label", "clik"), "did you mean 'click'?"),
        (("--score", "pctr"), "label: got nothing; expected the name of the label column"),
        (("--tasks", "click"), "--tasks: got 'click'; expected label:score"),
        (("--score", "pctr", "--label", "click", "--set", "bins=3"), "argument of 'platt': got 'bins'"),
    ],
)
def test_bad_input_is_one_clear_line(monocal_command, log_file, tmp_path, arguments, message):
    ended = monocal_command("fit", log_file, *arguments, "--method", "platt", "--out", tmp_path / "m")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.extras
def test_set_is_always_the_methods(monocal_command, log_file, tmp_path):
    """Names that the fit has as well: its bootstrap's seed, its own bound of rare values, its choice of a method."""
    given = ("fit", log_file, *COLUMNS, "--fields", "site_id,device", "--holdout", "0.1")
    small = ("--method", "umc", "--set", "size=small", "--set", "n_epochs=1", "--set", "carry=none")
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


def test_holdout_zero_uses_every_row(monocal_command, log_file, tmp_path):
    ended = monocal_command(
        "fit", log_file, *COLUMNS, "--method", "platt", "--holdout", "0", "--out", tmp_path / "m", "--json"
    )
    assert "fitted on all 20,000 rows" in ended.err
    assert ended.json["tasks"] == {}
    assert monocal.load(tmp_path / "m").info["n_rows"] == 20_000
