"""monocal calibrate."""

import json

import pytest

import monocal

COLUMNS = ("--score", "pctr", "--label", "click", "--time", "timestamp")
QUICK = ("--methods", "platt,wide_logistic")


@pytest.mark.extras
def test_a_log_becomes_a_verdict_a_model_and_a_report(monocal_command, log_file, tmp_path):
    box = tmp_path / "box"
    ended = monocal_command("calibrate", log_file, *COLUMNS, *QUICK, "--pcoc", "0.8,1.25", "--out", box)
    assert ended.code == 0, ended.out
    assert "fields: user_id, site_id" in ended.err
    assert "split by time: fitted on 16,000 rows" in ended.err
    assert max(map(len, ended.out.splitlines())) <= 80
    table, verdict = ended.out.split("Checks")
    lines = [line.split() for line in table.splitlines()[3:6]]
    assert [line[0] for line in lines] == ["wide_logistic", "platt", "none"]
    assert sorted(line[1] for line in lines) == [line[1] for line in lines]
    assert "\nSHIP wide_logistic: log-loss is " in verdict
    assert f"monocal serve {box / 'model'}" in ended.err
    saved = json.loads((box / "verdict.json").read_text())
    assert (saved["decision"], saved["method"]) == ("SHIP", "wide_logistic")
    assert {check["result"] for check in saved["checks"]} == {"passed"}
    assert "SHIP wide_logistic" in (box / "report.html").read_text()
    fields = ["--fields", "user_id,site_id,ad_id,country,hour,position,device"]
    fitted = ("fit", log_file, *COLUMNS, *fields, "--method", "wide_logistic")
    monocal_command(*fitted, "--out", tmp_path / "m")
    assert monocal.load(box / "model").fingerprint == monocal.load(tmp_path / "m").fingerprint


def test_what_must_not_ship_ends_with_3_and_without_a_model(monocal_command, log_file, tmp_path):
    given = (*COLUMNS, "--methods", "platt", "--pcoc", "0.999,1.001", "--out", tmp_path / "box")
    ended = monocal_command("calibrate", log_file, *given, "--json")
    assert ended.code == 3
    assert ended.json["decision"] == "NOT ENOUGH DATA"
    assert "PCOC is known to" in ended.json["reason"]
    assert not (tmp_path / "box" / "model").exists()
    assert json.loads((tmp_path / "box" / "verdict.json").read_text())["reason"] == ended.json["reason"]
    again = monocal_command("calibrate", log_file, *given)
    assert again.code == 3
    assert "NOT ENOUGH DATA: PCOC is known to" in " ".join(again.out.split())


def test_a_folder_with_other_files_is_refused_and_left_alone(monocal_command, log_file, tmp_path):
    box = tmp_path / "box"
    box.mkdir()
    (box / "notes.txt").write_text("mine")
    ended = monocal_command("calibrate", log_file, *COLUMNS, "--out", box)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "--out: got" in ended.err
    assert "notes.txt" in ended.err
    assert [path.name for path in box.iterdir()] == ["notes.txt"]
