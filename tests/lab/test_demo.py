"""The first run: a log, a verdict, a model, and one answer of the model it made."""

import json

import pytest

import monocal

ROWS = ("--rows", "20000")


def test_it_ends_with_an_answer_of_the_model_that_ships(monocal_command, tmp_path):
    for module in ("starlette", "uvicorn", "msgspec"):
        pytest.importorskip(module, reason="the serve extra is not installed")
    ended = monocal_command("demo", "--out", tmp_path / "demo", *ROWS)
    assert ended.code == 0, ended.err
    assert "SHIP " in ended.out
    assert f"$ monocal calibrate {tmp_path / 'demo' / 'log.parquet'} --score pctr" in ended.err
    answer = json.loads(ended.out[ended.out.index("{\n") :])
    new = str(tmp_path / "demo" / "new.parquet")
    expected = monocal.load(tmp_path / "demo" / "box" / "model").predict(new)[0]
    assert answer["probabilities"]["click"] == [expected]
    (tmp_path / "demo" / "calibrated.parquet").write_text("made by the next command")
    assert monocal_command("demo", "--out", tmp_path / "demo", *ROWS).code == 0
    assert (tmp_path / "demo" / "calibrated.parquet").read_text() == "made by the next command"


def test_it_leaves_the_files_of_others_alone(monocal_command, tmp_path):
    (tmp_path / "log.parquet").write_text("a month of work")
    ended = monocal_command("demo", "--out", tmp_path, *ROWS)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "log.parquet" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
