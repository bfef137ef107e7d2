"""The command line on Spark: what it writes, and one line for what a newcomer mistypes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.spark import workers

COLUMNS = ["--score", "pctr", "--label", "click"]
WIDE = ["--method", "wide_logistic", "--set", "carry=none"]


@pytest.fixture(scope="module")
def place(rows, tmp_path_factory):
    """Two models, a table, a file that is none, an empty folder, and a folder with a note in it."""
    place = tmp_path_factory.mktemp("place")
    given = {"score": "pctr", "label": "click", "fields": ["device"], "time": "timestamp"}
    monocal.fit(rows.slice(0, 10_000), method="none", **given).save(place / "old")
    monocal.fit(rows.slice(0, 10_000), method="wide_logistic", **given).save(place / "model")
    pq.write_table(rows.slice(10_000, 8_000), place / "log.parquet")
    pq.write_table(pa.table({"pctr": [0.1, None], "device": ["a", "b"]}), place / "bad.parquet")
    (place / "text.parquet").write_text("no table", encoding="utf-8")
    (place / "empty").mkdir()
    (place / "full").mkdir()
    (place / "full" / "note.txt").write_text("keep me", encoding="utf-8")
    return place


def run(place, *words):
    return main([str(place / word[1:]) if word.startswith("@") else word for word in words] + ["--engine", "spark"])


def test_fit_apply_and_evaluate(spark, place, rows, tmp_path, capsys):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    options = [*COLUMNS, *WIDE, "--conf", "spark.sql.shuffle.partitions=3", "--json", "--out", str(tmp_path / "model")]
    try:
        assert run(place, "fit", "@log.parquet", *options) == 0
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert json.loads(capsys.readouterr().out)["n_rows"] == 8_000
    model, log = monocal.load(tmp_path / "model"), pq.read_table(place / "log.parquet")
    scored = ["apply", str(tmp_path / "model"), "@log.parquet", "--out", str(tmp_path / "scored")]
    assert run(place, *scored) == 0
    written = pq.read_table(tmp_path / "scored").sort_by("row")
    assert written["pctr_calibrated"].to_numpy().tolist() == model.predict(log).tolist()
    assert run(place, *scored) == 2
    assert "a folder that is not there yet" in capsys.readouterr().err
    assert run(place, "evaluate", str(tmp_path / "model"), "@log.parquet", "--metrics", "pcoc,auc") == 0
    assert "from a sketch, at most" in capsys.readouterr().out


def test_gate_and_refresh_bring_the_columns_of_a_spark_table_here(spark, place, rows, tmp_path, capsys):
    shown = []
    for engine in ("local", "spark"):
        gate = ["gate", place / "old", place / "model", place / "log.parquet", "--by", "device", "--json"]
        code = main([*map(str, gate), "--engine", engine])
        shown.append((code, json.loads(capsys.readouterr().out)))
        refresh = ["refresh", place / "model", place / "log.parquet", "--time", "timestamp"]
        assert main([*map(str, refresh), "--out", str(tmp_path / engine), "--engine", engine]) == 0
        capsys.readouterr()
    assert shown[0][0] == shown[1][0]
    assert [found["n_rows"] for _, found in shown] == [8_000, 8_000]
    local, found = (monocal.load(tmp_path / engine).predict(rows) for engine in ("local", "spark"))
    assert found == pytest.approx(local, rel=1e-6)


def test_a_model_too_large_to_travel_is_read_from_its_place(spark, place, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(workers, "LARGEST_SHIPPED_BYTES", 1_000)
    assert run(place, "apply", "@model", "@log.parquet", "--out", str(tmp_path / "scored")) == 0
    found = pq.read_table(tmp_path / "scored").sort_by("row")["pctr_calibrated"].to_numpy()
    log = pq.read_table(place / "log.parquet")
    assert found.tolist() == monocal.load(place / "model").predict(log).tolist()
    # another sampling rate makes another model, which lies nowhere
    words = ["apply", "@model", "@log.parquet", "--out", str(tmp_path / "again"), "--sampling-rate", "0.5"]
    assert run(place, *words) == 2
    assert "save it to a shared place" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "@model", "@missing.parquet"], "missing.parquet', which is not there; expected Parquet, or the"),
        (["evaluate", "@model", "ads.yesterday"], "got 'ads.yesterday', which is not there"),
        (["evaluate", "@model", "@text.parquet"], "text.parquet', which is no Parquet"),
        (["evaluate", "@model", "@empty"], "empty', where no Parquet is"),
        (["evaluate", "@nothing", "@log.parquet"], "nothing: there is no such folder; a saved model is a folder"),
        (["evaluate", "@model", "log.csv"], "got 'log.csv'; expected Parquet or a table's name"),
        (["evaluate", "@model", "@log.parquet", "--by", "device"], "got device; expected nothing with --engine"),
        (["evaluate", "@model", "@log.parquet", "--group", "user_id"], "got user_id; expected nothing with --engine"),
        (["fit", "@log.parquet", *COLUMNS, *WIDE, "--workers", "3", "--out", "@new"], "at most the 2 slots that Spark"),
        (["fit", "@log.parquet", *COLUMNS, "--method", "platt", "--out", "@new"], "several processes can fit together"),
        (["fit", "@log.parquet", *COLUMNS, *WIDE, "--n-shards", "2", "--out", "@new"], "n-shards"),
        (["fit", "@log.parquet", *COLUMNS, *WIDE, "--out", "@full"], "full', which holds note.txt"),
        (["apply", "@model", "@log.parquet", "--out", "@full"], "full', which is there; expected a folder that is not"),
        (["apply", "@model", "@bad.parquet", "--out", "@new"], "got null in row 1 of partition 0 (file:"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(spark, place, capsys, words, message):
    before = sorted(place.rglob("*"))
    assert run(place, *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("with_java", [True, False])
def test_a_local_master_starts_a_session_whose_workers_are_the_python_that_runs(place, tmp_path, with_java):
    """The python3 of the PATH need not have monocal, such as that of the system beside a virtual environment."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    words = ["fit", str(place / "log.parquet"), *COLUMNS, *WIDE, "--workers", "1", "--out", str(tmp_path / "model")]
    words += ["--engine", "spark", "--master", "local[1]"]
    for conf in ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"):
        words += ["--conf", conf]
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "python3").write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
    (commands / "python3").chmod(0o755)
    for name in ("bash", "dirname", "basename", "readlink", "ps"):
        (commands / name).symlink_to(shutil.which(name))
    path = f"{commands}{os.pathsep}{os.environ['PATH']}" if with_java else str(commands)
    settings = {"PYTHONPATH": str(Path(monocal.__file__).parents[1]), "SPARK_LOCAL_IP": "127.0.0.1", "PATH": path}
    settings |= {"PYTHONWARNINGS": "ignore", "GLOO_SOCKET_IFNAME": "lo"}
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "JAVA_HOME")}
    ended = subprocess.run(
        [sys.executable, "-m", "monocal", *words],
        env={**inherited, **settings},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    if with_java:
        assert ended.returncode == 0, ended.stderr
        assert monocal.load(tmp_path / "model").info["n_rows"] == 8_000
    else:
        assert ended.returncode == 2
        assert "spark without java; expected java 17 or newer" in ended.stderr.splitlines()[-1]
