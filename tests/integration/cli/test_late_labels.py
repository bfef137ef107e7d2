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


@pytest.fixture(scope="module")
def two_days(tmp_path_factory):
    """A model of labels that came late, and the newest day, all of whose labels may still come."""
    folder = tmp_path_factory.mktemp("late-days")
    table = delay_labels(simulate_log(20_000, seed=2).table()).sort_by("timestamp")
    late = {"event_time": "timestamp", "label_time": "label_time", "window": str(7 * 86_400)}
    columns = {"score": "pctr", "label": "click", "fields": ["device"]}
    monocal.fit(table.slice(0, 16_000), method="wide_logistic", **columns, **late).save(folder / "model")
    naive = monocal.fit(table.slice(0, 16_000), method="wide_logistic", time="timestamp", **columns)
    naive.save(folder / "naive")
    pq.write_table(table.slice(16_000), folder / "today.parquet")
    return folder, table.slice(16_000)


def test_a_gate_on_young_labels_does_not_prefer_a_forecast_that_is_too_low(monocal_command, two_days, tmp_path):
    folder, _ = two_days
    judged = ("gate", folder / "model", folder / "naive", folder / "today.parquet")
    assert monocal_command(*judged).code == 0
    refused = monocal_command(*judged, *LATE, "--html", tmp_path / "gate.html")
    assert refused.code == 3
    assert "late labels: 0.0% of the rows" in refused.out
    assert "late labels: 0.0% of the rows" in (tmp_path / "gate.html").read_text()


def test_comparison_and_report_know_the_mature_share(monocal_command, late_file, two_days, tmp_path):
    folder, _ = two_days
    methods = ("--methods", "platt,gauss", "--metric", "log_loss")
    compared = monocal_command("compare", late_file, *COLUMNS[:4], *methods, *LATE, "--json")
    assert compared.code == 0
    assert REMARK in compared.err
    assert compared.json["late_labels"]["mature_share"] == pytest.approx(0.3, abs=0.01)
    assert compared.json["best"] == "platt"
    problems = {method["method"]: method["problem"] for method in compared.json["methods"]}
    assert "one that maximises a weighted likelihood" in problems["gauss"]
    page = tmp_path / "report.html"
    reported = monocal_command("report", folder / "model", folder / "today.parquet", *LATE, "--out", page)
    assert reported.code == 0
    assert "late labels: 0.0% of the rows are older than the window" in page.read_text()
