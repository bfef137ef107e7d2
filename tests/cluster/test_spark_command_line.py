"""The command line on Spark, with a session that is running and with one that it starts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.spark import shipping

GIVEN = ["--score", "pctr", "--label", "click", "--engine", "spark"]


@pytest.fixture(scope="module")
def models(rows, tmp_path_factory):
    """Models of the oldest third: none, which is active, and a challenger."""
    place = tmp_path_factory.mktemp("models")
    given = {"score": "pctr", "label": "click", "fields": ["device"], "time": "timestamp"}
    for method in ("none", "wide_logistic"):
        monocal.fit(rows.slice(0, 10_000), method=method, **given).save(place / method)
    return place


@pytest.fixture(scope="module")
def day(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("day") / "day.parquet"
    pq.write_table(rows.slice(10_000, 8_000), path)
    return path


def test_fit_takes_the_session_and_its_settings(spark, folder, rows, tmp_path, capsys):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    options = ["--method", "platt", "--conf", "spark.sql.shuffle.partitions=3", "--json"]
    try:
        assert main(["fit", str(folder), *GIVEN, *options, "--out", str(tmp_path / "model")]) == 0
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert json.loads(capsys.readouterr().out)["n_rows"] == rows.num_rows
    local = monocal.fit(rows, method="platt", score="pctr", label="click")
    assert monocal.load(tmp_path / "model").predict(rows) == pytest.approx(local.predict(rows), rel=1e-12)


@pytest.mark.parametrize("option", [["--n-shards", "2"], ["--refit"], ["--conf", "spark.executor.memory"]])
def test_what_has_no_meaning_on_spark_is_refused_and_nothing_saved(spark, folder, tmp_path, capsys, option):
    assert main(["fit", str(folder), *GIVEN, "--method", "platt", *option, "--out", str(tmp_path / "model")]) == 2
    assert option[0] in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_a_model_too_large_to_travel_is_read_from_its_place(spark, models, day, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(shipping, "LARGEST_SHIPPED_BYTES", 1_000)
    arguments = ["apply", str(models / "wide_logistic"), str(day), "--out", str(tmp_path / "scored")]
    assert main([*arguments, "--engine", "spark"]) == 0, capsys.readouterr().err
    found = pq.read_table(tmp_path / "scored").sort_by("row")["pctr_calibrated"].to_numpy()
    assert found.tolist() == monocal.load(models / "wide_logistic").predict(pq.read_table(day)).tolist()
    # another sampling rate makes another model, which lies nowhere
    again = [*arguments[:-1], str(tmp_path / "again"), "--engine", "spark", "--sampling-rate", "0.5"]
    assert main(again) == 2
    assert "save it to a shared place" in capsys.readouterr().err


def test_gate_and_refresh_read_a_spark_table(spark, models, day, rows, tmp_path, capsys):
    told = []
    for engine in ("local", "spark"):
        gate = ["gate", str(models / "none"), str(models / "wide_logistic"), str(day), "--by", "device", "--json"]
        code = main([*gate, "--engine", engine])
        told.append((code, json.loads(capsys.readouterr().out)))
        refresh = ["refresh", str(models / "wide_logistic"), str(day), "--time", "timestamp"]
        assert main([*refresh, "--out", str(tmp_path / engine), "--engine", engine]) == 0, capsys.readouterr().err
        capsys.readouterr()
    assert told[0][0] == told[1][0]
    assert told[0][1]["n_rows"] == told[1][1]["n_rows"] == 8_000
    assert told[0][1]["reasons"] == told[1][1]["reasons"]
    local, found = (monocal.load(tmp_path / engine).predict(rows) for engine in ("local", "spark"))
    assert found == pytest.approx(local, rel=1e-6)


def test_a_local_master_starts_a_session_whose_workers_are_the_python_that_runs(folder, tmp_path):
    """The python3 of the PATH need not have monocal, such as that of the system beside a virtual environment."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    given = ["fit", str(folder / "part-2.parquet"), *GIVEN, "--method", "temperature", "--out", str(tmp_path / "model")]
    given += ["--master", "local[1]"]
    for conf in ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"):
        given += ["--conf", conf]
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
    other.chmod(0o755)
    settings = {"PYTHONPATH": str(Path(monocal.__file__).parents[1]), "SPARK_LOCAL_IP": "127.0.0.1"}
    settings |= {"PYTHONWARNINGS": "ignore", "PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}"}
    inherited = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    ended = subprocess.run(
        [sys.executable, "-m", "monocal", *given],
        env={**inherited, **settings},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert monocal.load(tmp_path / "model").info["n_rows"] == 8_000
