"""Studies end to end at a smoke size: cells, cache, skips, resume after a kill."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.studies.cell_runner import RunOptions
from monocal.lab.studies.cells import fit_and_predict
from monocal.lab.studies.prepared_logs import prepare
from monocal.lab.studies.run_study import run_study
from monocal.lab.studies.study import CalibratorSpec, DataSpec, Study


def small(*calibrators, rows=3000, seeds=(0,)):
    data = (DataSpec("world", n_calibration=rows, n_test=rows),)
    return Study("small", "a question?", data, calibrators, seeds=seeds, n_bootstrap=10)


def test_study_writes_long_results_and_a_leaderboard(tmp_path):
    study = small(CalibratorSpec("none", "none"), CalibratorSpec("platt", "platt"))
    outcome = run_study(study, tmp_path)
    assert (outcome.n_run, outcome.n_cells) == (2, 2)
    rows = pq.read_table(tmp_path / "small" / "results.parquet").to_pylist()
    assert {row["metric"] for row in rows} == {*study.metrics, "kl_to_truth", "error_to_truth"}
    text = outcome.leaderboard.read_text()
    assert text.index("| platt |") < text.index("| none |")
    assert "monocal lab bench small" in text


def test_finished_cells_are_never_run_again(tmp_path):
    study = small(CalibratorSpec("none", "none"))
    run_study(study, tmp_path)
    longer = replace(study, calibrators=(*study.calibrators, CalibratorSpec("beta", "beta")))
    outcome = run_study(longer, tmp_path)
    assert (outcome.n_run, outcome.n_cells) == (1, 2)
    renamed = replace(longer, calibrators=(CalibratorSpec("uncalibrated", "none"), CalibratorSpec("beta", "beta")))
    assert run_study(renamed, tmp_path).n_run == 0


def test_a_failing_cell_is_skipped_with_its_reason(tmp_path):
    study = small(
        CalibratorSpec("none", "none"), CalibratorSpec("broken", "lightgbm", arguments={"objective": "nonsense"})
    )
    outcome = run_study(study, tmp_path)
    reasons = {row["calibrator"]: row["reason"] for row in outcome.rows}
    assert reasons["none"] == ""
    assert "Unknown objective" in reasons["broken"]
    assert "broken: skipped, process ended with 1" in outcome.leaderboard.read_text()


def test_search_uses_the_newest_calibration_rows_only(tmp_path):
    spec = CalibratorSpec("histogram", "histogram", search={"n_bins": [2, 10]})
    run_study(small(spec, CalibratorSpec("none", "none")), tmp_path)
    (result,) = [
        json.loads(path.read_text())
        for path in (tmp_path / "cells").glob("*/result.json")
        if "search" in json.loads(path.read_text())
    ]
    assert result["search"]["arguments"]["n_bins"] in (2, 10)
    assert result["search"]["n_trials"] == 2


def test_calibrators_cannot_see_test_labels(tmp_path):
    data = prepare(DataSpec("world", n_calibration=500, n_test=500), tmp_path, None)
    (data.folder / "test_labels.npy").unlink()
    answers, _ = fit_and_predict("platt", {}, data.calibration(), data.test(), 0)
    assert answers.shape == (500,)


def test_a_part_of_a_study_can_be_run_and_finished_cells_be_judged(tmp_path):
    study = small(CalibratorSpec("none", "none"), CalibratorSpec("platt", "platt"))
    assert run_study(study.only(calibrators=["platt"]), tmp_path).n_run == 1
    outcome = run_study(study, tmp_path, RunOptions(finished_only=True))
    assert outcome.n_run == 0
    assert {row["calibrator"] for row in outcome.rows} == {"platt"}
    with pytest.raises(UnknownName, match="did you mean 'platt'"):
        study.only(calibrators=["plat"])
    with pytest.raises(UnknownName, match="data of 'small'"):
        study.only(data=["worlds of others"])


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"name": "s", "question": "?", "data": [{"name": "d", "wrld": "x"}], "calibrators": [{"name": "n"}]},
            "did you mean 'world'",
        ),
        ({"name": "s", "question": "?", "data": [{"name": "d"}], "calibrators": []}, "no calibrators"),
        ({"name": "s", "question": "?", "dta": []}, "did you mean 'data'"),
    ],
)
def test_a_wrong_study_file_says_what_is_wrong(entries, message):
    with pytest.raises((UnknownName, InvalidInput), match=message):
        Study.of(entries)
