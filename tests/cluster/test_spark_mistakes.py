"""What a newcomer mistypes on Spark: one line says what is wrong and what to do, and nothing is written."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.engines import spark_table
from monocal.cli.main import main

COLUMNS = ["--score", "pctr", "--label", "click"]
LOOPBACK = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"]


@pytest.fixture(scope="module")
def place(rows, tmp_path_factory):
    """A model, a table, a file that is none, an empty folder, and a folder with a note in it."""
    place = tmp_path_factory.mktemp("mistakes")
    monocal.fit(rows.slice(0, 2_000), method="platt", score="pctr", label="click").save(place / "model")
    pq.write_table(rows.slice(0, 2_000), place / "log.parquet")
    (place / "text.parquet").write_text("no table", encoding="utf-8")
    (place / "empty").mkdir()
    (place / "full").mkdir()
    (place / "full" / "note.txt").write_text("keep me", encoding="utf-8")
    return place


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "@model", "@missing.parquet"], "missing.parquet', which is not there; expected Parquet, or the"),
        (["evaluate", "@model", "ads.yesterday"], "TABLE: got 'ads.yesterday', which is not there"),
        (["evaluate", "@model", "a.b.c.d"], "TABLE: got 'a.b.c.d', which is not there"),
        (["evaluate", "@model", "@text.parquet"], "text.parquet', which is no Parquet"),
        (["evaluate", "@model", "@empty"], "empty', where no Parquet is"),
        (["evaluate", "@nothing", "@log.parquet"], "nothing: there is no such folder; a saved model is a folder"),
        (["evaluate", "@model", "log.csv"], "TABLE: got 'log.csv'; expected Parquet or a table's name"),
        (["evaluate", "@model", "@log.parquet", "--by", "device"], "--by: got device; expected nothing with --engine"),
        (["evaluate", "@log.parquet", "--score", "pct", "--label", "click"], "did you mean 'pctr'?"),
        (
            ["fit", "@log.parquet", *COLUMNS, "--method", "wide_logistic", "--workers", "3", "--out", "@new"],
            "--workers: got 3; expected at most the 2 slots that Spark has. Hint: ask for fewer.",
        ),
        (["fit", "@log.parquet", *COLUMNS, "--method", "platt", "--out", "@full"], "full', which holds note.txt"),
        (["apply", "@model", "@log.parquet", "--out", "@full"], "full', which is there; expected a folder that is not"),
        (["apply", "@model", "@log.parquet", "--out", "@new", "--column", "click"], "choose another with --column"),
    ],
)
def test_a_mistake_is_told_in_one_line(spark, place, capsys, words, message):
    before = sorted(place.rglob("*"))
    told = [str(place / word[1:]) if word.startswith("@") else word for word in words]
    assert main([*told, "--engine", "spark"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert sorted(place.rglob("*")) == before


def test_a_folder_that_is_there_is_refused_before_rows_are_looked_at(spark, place, tmp_path, capsys):
    pq.write_table(pa.table({"pctr": [0.1, None]}), tmp_path / "bad.parquet")
    arguments = ["apply", str(place / "model"), str(tmp_path / "bad.parquet"), "--engine", "spark"]
    assert main([*arguments, "--out", str(place / "full")]) == 2
    assert "--out: got" in capsys.readouterr().err
    assert main([*arguments, "--out", str(tmp_path / "new")]) == 2
    assert "score column 'pctr': got null in row 1" in capsys.readouterr().err


def test_a_table_of_the_catalogue_goes_by_its_name(spark, place):
    spark.read.parquet(str(place / "log.parquet")).createOrReplaceTempView("clicks_of_monday")
    try:
        assert spark_table("clicks_of_monday", None, None).count() == 2_000
    finally:
        spark.catalog.dropTempView("clicks_of_monday")


def run(words, **environment):
    """The command line in a process of its own."""
    settings = {"PYTHONPATH": str(Path(monocal.__file__).parents[1]), "SPARK_LOCAL_IP": "127.0.0.1"}
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "JAVA_HOME")}
    return subprocess.run(
        [sys.executable, "-m", "monocal", *map(str, words), "--engine", "spark"],
        env={**inherited, **settings, **environment},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )


def folder_of_commands(folder, *names):
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name))
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def ended(place, out):
    """What commands with a session of their own ended with, by name; several at a time, since each starts java."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    fit = ["fit", place / "log.parquet", *COLUMNS]
    here = ["--master", "local[1]", *(word for setting in LOOPBACK for word in ("--conf", setting))]
    wide = [*fit, "--method", "wide_logistic", "--out", out / "wide", *here]
    platt = [*fit, "--method", "platt", "--out", out / "platt"]
    commands = folder_of_commands(out / "bin", "bash", "dirname", "basename", "readlink", "ps")
    jobs = {
        "no java": ([*platt, "--master", "local[1]"], {"PATH": str(commands)}),
        "no such master": ([*platt, "--master", "locl[1]"], {}),
        "dynamic allocation": ([*wide, "--workers", 1, "--conf", "spark.dynamicAllocation.enabled=true"], {}),
        "parallelism": ([*wide, "--workers", 2, "--conf", "spark.default.parallelism=8"], {}),
        "no table": (["evaluate", place / "model", out / "missing.parquet", *here], {}),
    }
    with ThreadPoolExecutor(3) as pool:
        running = {name: pool.submit(run, words, **environment) for name, (words, environment) in jobs.items()}
        return {name: found.result() for name, found in running.items()}


def test_without_java_it_is_java_that_is_missing(ended):
    assert ended["no java"].returncode == 2
    assert ended["no java"].stderr.splitlines()[-1] == (
        "error: --engine: got spark without java; expected java 17 or newer. Hint: install it, or set JAVA_HOME."
    )


def test_a_master_that_spark_does_not_know_is_no_fault_of_monocal(ended):
    assert ended["no such master"].returncode == 2
    expected = "got spark, which did not start; expected a --master and --conf that Spark takes"
    assert expected in ended["no such master"].stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dynamic allocation", "got true; expected false: tasks of a barrier stage start together"),
        ("parallelism", "--workers: got 2; expected at most the 1 slots that Spark has"),
    ],
)
def test_a_stage_that_would_wait_in_vain_is_refused_whatever_the_settings(ended, out, name, message):
    assert ended[name].returncode == 2
    assert message in ended[name].stderr
    assert not (out / "wide").exists()


def test_a_local_master_prints_no_pages_of_java(ended):
    assert ended["no table"].returncode == 2
    assert "which is not there" in ended["no table"].stderr.splitlines()[-1]
    assert "\tat " not in ended["no table"].stderr
