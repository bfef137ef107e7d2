"""From a log to a scored log and a report, as the documentation has it."""

import pyarrow.parquet as pq
import pytest


def test_the_shortest_useful_session(monocal_command, log_file, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the neural extra is not installed")
    monkeypatch.chdir(tmp_path)
    columns = ("--score", "pctr", "--label", "click", "--fields", "site_id,device")
    steps = [
        ("fit", log_file, *columns, "--method", "umc", "--set", "n_epochs=1", "--out", "model/"),
        ("apply", "model/", log_file, "--out", "scored.parquet"),
        ("report", "model/", log_file, "--out", "report.html"),
    ]
    for step in steps:
        ended = monocal_command(*step)
        assert ended.code == 0, ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "report.html", "scored.parquet"]
    assert pq.read_schema("scored.parquet").names[-1] == "pctr_calibrated"
