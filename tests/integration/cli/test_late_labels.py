"""monocal fit, evaluate and watch on labels that may still come."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.lab.simulator import delay_labels, simulate_log

COLUMNS = ("--score", "pctr", "--label", "click", "--method", "platt")
MOMENTS = ("--event-time", "timestamp", "--label-time", "label_time")
LATE = (*MOMENTS, "--window", 7 * 86_400)
REMARK = "late labels: 30.0% of the rows are older than the window"


@pytest.fixture(scope="module")
def late_file(tmp_path_factory):
    """Ten days seen at their end, in any order: a fifth of the labels is still to come."""
    table = delay_labels(simulate_log(20_000, seed=2).table())
    path = tmp_path_factory.mktemp("late") / "log.parquet"
    pq.write_table(table.take(np.random.default_rng(0).permutation(20_000)), path)
    return path


def test_the_three_options_give_a_level_that_counts_labels_still_to_come(monocal_command, late_file, tmp_path):
    fitted = monocal_command("fit", late_file, *COLUMNS, *LATE, "--out", tmp_path / "model")
    assert fitted.code == 0
    assert "split by time: fitted on 16,000 rows with timestamp" in fitted.err
    assert REMARK in fitted.err

    def pcoc(*options):
        ended = monocal_command("evaluate", tmp_path / "model", late_file, "--metrics", "pcoc", *options, "--json")
        assert ended.code == 0
        return ended.json["tasks"]["click"]["after"]["metrics"]["pcoc"], ended.json

    seen, found = pcoc()
    assert seen["interval"][0] > 1.1
    assert "late_labels" not in found
    late, found = pcoc(*LATE)
    assert late["interval"][0] <= 1.0 <= late["interval"][1]
    assert found["late_labels"]["mature_share"] == pytest.approx(0.3, abs=0.01)
    final, _ = pcoc("--label", "final_click")
    assert final["interval"][0] <= 1.0 <= final["interval"][1]
    assert monocal.load(tmp_path / "model").info["late_labels"]["window"] == 7 * 86_400

    days = ("--time", "timestamp", "--every", "86400")
    watched = ("watch", tmp_path / "model", late_file, *days)
    assert monocal_command(*watched, "--state", tmp_path / "naive").code == 4
    assert monocal_command(*watched, *LATE[2:], "--state", tmp_path / "late").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (MOMENTS, "error: --window: got None; wanted when a row happened, when its positive label came, and how long"),
        ((*LATE, "--method", "gauss"), "error: --method: got 'gauss' with labels that may still come; wanted one that"),
    ],
)
def test_a_mistake_is_told_in_one_line(monocal_command, late_file, tmp_path, options, message):
    ended = monocal_command("fit", late_file, *COLUMNS, *options, "--out", tmp_path / "model")
    assert ended.code == 2
    assert ended.err.startswith(message)
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "model").exists()
