"""monocal evaluate."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal

QUICK = ("--metrics", "pcoc,log_loss")


def test_a_model_before_and_after(monocal_command, model_folder, log_file):
    ended = monocal_command("evaluate", model_folder, log_file)
    assert ended.code == 0
    assert ended.err.startswith("warning: the model was fitted on about 100% of the rows that it is judged on")
    for word in ("score", "calibrated", "floor", "mfrce", "better by"):
        assert word in ended.out
    assert "gauc" not in ended.out


def test_json_agrees_with_the_library(monocal_command, model_folder, log_file):
    found = monocal_command("evaluate", model_folder, log_file, *QUICK, "--json").json["tasks"]["click"]
    table = pq.read_table(log_file)
    expected = monocal.evaluate(table["click"], monocal.load(model_folder).predict(table), metrics=["pcoc", "log_loss"])
    for name in ("pcoc", "log_loss"):
        assert found["after"]["metrics"][name]["value"] == pytest.approx(expected.value(name), rel=1e-12)
        assert found["after"]["metrics"][name]["interval"] == pytest.approx(list(expected.interval(name)))
    assert found["change"]["log_loss"]["verdict"] == "better"


def test_a_score_column_alone(monocal_command, log_file):
    ended = monocal_command(
        "evaluate", log_file, "--score", "true_p", "--label", "click", "--fields", "device", "--json"
    )
    metrics = ended.json["tasks"]["click"]["before"]["metrics"]
    assert metrics["pcoc"]["value"] == pytest.approx(1.0, abs=0.1)
    assert metrics["mfrce"]["value"] < 3 * metrics["mfrce"]["floor"]
    assert "after" not in ended.json["tasks"]["click"]


def test_since_and_until(monocal_command, log_file):
    times = pq.read_table(log_file)["timestamp"].to_numpy()
    first, last = int(np.quantile(times, 0.2)), int(np.quantile(times, 0.7))
    arguments = ("--score", "pctr", "--label", "click", "--time", "timestamp", *QUICK, "--json")
    found = monocal_command("evaluate", log_file, *arguments, "--since", first, "--until", last).json
    assert found["n_rows"] == ((times >= first) & (times < last)).sum()


def test_weights_and_sampling_rate_count(monocal_command, log_file, tmp_path):
    table = pq.read_table(log_file).slice(0, 4000)
    weighted = table.append_column("w", pa.array(np.arange(4000) % 3))
    pq.write_table(weighted, tmp_path / "w.parquet")
    arguments = ("--score", "pctr", "--label", "click", "--metrics", "pcoc", "--json")
    found = monocal_command("evaluate", tmp_path / "w.parquet", *arguments, "--weight", "w", "--sampling-rate", "0.5")
    p, y, w = table["pctr"].to_numpy(), table["click"].to_numpy(), np.arange(4000) % 3
    corrected = 0.5 * p / (0.5 * p + 1 - p)
    expected = (w * corrected).sum() / (w * y).sum()
    assert found.json["tasks"]["click"]["before"]["metrics"]["pcoc"]["value"] == pytest.approx(expected, rel=1e-6)


def test_several_tasks(monocal_command, videos_file):
    arguments = ("--tasks", "click:pctr", "--tasks", "view_given_click:pcvr", "--tasks", "both:pctcvr", *QUICK)
    ended = monocal_command("evaluate", videos_file, *arguments)
    assert ended.code == 0
    assert all(f"{task}, " in ended.out for task in ("click", "view_given_click", "both"))
