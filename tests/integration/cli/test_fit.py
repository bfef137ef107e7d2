"""monocal fit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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


def test_without_time_the_order_of_rows_splits(monocal_command, log_file, tmp_path):
    ended = monocal_command("fit", log_file, *COLUMNS, "--method", "platt", "--out", tmp_path / "m")
    assert ended.code == 0
    assert "split by row order, taken as time order: fitted on the first 16,000 rows" in ended.err


def test_held_out_values_are_unseen_by_the_model(monocal_command, tmp_path):
    rng = np.random.default_rng(0)
    site = np.where(np.arange(2000) < 1600, "old", "new")
    table = pa.table({"p": np.full(2000, 0.3), "y": (rng.random(2000) < 0.3).astype(np.int8), "site": site})
    pq.write_table(table, tmp_path / "log.parquet")
    ended = monocal_command(
        *("fit", tmp_path / "log.parquet", "--score", "p", "--label", "y", "--fields", "site"),
        *("--method", "wide_logistic", "--out", tmp_path / "m"),
    )
    assert ended.code == 0
    assert monocal.load(tmp_path / "m").vocabulary["site"].values.to_pylist() == ["old"]


def test_holdout_zero_uses_every_row(monocal_command, log_file, tmp_path):
    ended = monocal_command(
        "fit", log_file, *COLUMNS, "--method", "platt", "--holdout", "0", "--out", tmp_path / "m", "--json"
    )
    assert "fitted on all 20,000 rows" in ended.err
    assert ended.json["tasks"] == {}
    assert monocal.load(tmp_path / "m").info["n_rows"] == 20_000


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


def test_a_mistyped_score_is_told_by_its_option_before_fields_are_proposed(monocal_command, log_file, tmp_path):
    ended = monocal_command("fit", log_file, "--score", "pctrr", "--label", "click", "--out", tmp_path / "m")
    assert ended.code == 2
    assert "error: --score: got 'pctrr'" in ended.err
    assert "did you mean 'pctr'?" in ended.err
    assert "Categorical columns" not in ended.err


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


def test_set_passes_options_to_the_method(monocal_command, log_file, tmp_path):
    arguments = ("--method", "histogram", "--set", "n_bins=7", "--set", "guard=true")
    assert monocal_command("fit", log_file, *COLUMNS, *arguments, "--out", tmp_path / "m").code == 0
    fitted = monocal.load(tmp_path / "m").task().calibrator
    assert (fitted.n_bins, fitted.guard) == (7, True)


def test_sampling_rate_is_kept_in_the_model(monocal_command, log_file, tmp_path):
    arguments = ("--method", "none", "--sampling-rate", "0.1", "--out", tmp_path / "m")
    assert monocal_command("fit", log_file, *COLUMNS, *arguments).code == 0
    assert monocal.load(tmp_path / "m").sampling_rate == 0.1


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
        (("--score", "ctr", "--label", "click"), "did you mean 'pctr'?"),
        (("--score", "pctr", "--label", "click", "--fields", "site"), "did you mean 'site_id'?"),
        (("--score", "pctr"), "label: got nothing; expected the name of the label column"),
        (("--tasks", "click"), "--tasks: got 'click'; expected label:score"),
        (("--score", "timestamp", "--label", "click"), "expected probabilities in [0, 1]"),
        (("--score", "pctr", "--label", "click", "--set", "bins=3"), "argument of 'platt': got 'bins'"),
        (("--score", "pctr", "--label", "click", "--sampling-rate", "2"), "expected the share of negatives kept"),
    ],
)
def test_bad_input_is_one_clear_line(monocal_command, log_file, tmp_path, arguments, message):
    ended = monocal_command("fit", log_file, *arguments, "--method", "platt", "--out", tmp_path / "m")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "m").exists()


def test_unknown_method_suggests(monocal_command, log_file, tmp_path):
    ended = monocal_command("fit", log_file, *COLUMNS, "--method", "isotonik", "--out", tmp_path / "m")
    assert ended.code == 2
    assert "did you mean 'isotonic'?" in ended.err


def test_missing_file(monocal_command, tmp_path):
    ended = monocal_command("fit", tmp_path / "no.parquet", *COLUMNS, "--method", "platt", "--out", tmp_path / "m")
    assert ended.code == 2
    assert "expected an existing file, folder or glob. Hint: check the path." in ended.err


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
