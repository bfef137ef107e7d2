"""The same on Spark Connect, where there is no Spark context, and with dynamic allocation;
spark-submit: in processes of their own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import monocal
import monocal.spark as ms

SCRIPT = """
import json
import sys
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
import monocal, monocal.spark as ms
from monocal.core.errors import InvalidInput
from monocal.spark.workers import collected

folder, given = sys.argv[1], json.loads(sys.argv[2])
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
builder = SparkSession.builder.remote("local[2]")
settings |= {"spark.sql.shuffle.partitions": "2", "spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false"}
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
df, rows = spark.read.parquet(folder), pq.read_table(folder)
together = ms.fit(df.where("row < 6000"), **given)  # in one barrier stage
model = monocal.fit(rows, method="platt", score="pctr", label="click")
scored = collected(ms.apply(df, model)).sort_by("row")
assert (scored["pctr_calibrated"].to_numpy() == model.predict(rows)).all()
found = ms.evaluate(df, model=model, metrics=["pcoc", "fece"], fields=["device"]).tasks["click"]
assert abs(found.value("pcoc") - 1.0) < 1e-6

def refusal(**options):
    try:
        ms.fit(df, **{**given, **options})
    except InvalidInput as error:
        return str(error)
    raise AssertionError("tasks of a barrier stage may not start together")

assert "workers: got 3; expected at most the 2 slots" in refusal(workers=3)
spark.conf.set("spark.dynamicAllocation.enabled", "true")
assert "spark.dynamicAllocation.enabled: got true; expected false" in refusal(workers=2)
assert df.count() == rows.num_rows
print("fitted", together.fingerprint)
spark.stop()
"""


def test_fit_apply_and_evaluate_need_no_spark_context(spark, folder):
    """What is fitted there is what a classic session fits, to the bit."""
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    if not list((Path(pyspark.__file__).parent / "jars").glob("spark-connect_*")):
        pytest.skip("the Python package of Spark 3.5 brings no Connect server")
    given = {"method": "wide_logistic", "score": "pctr", "label": "click", "fields": ["site_id"], "time": "timestamp"}
    expected = ms.fit(spark.read.parquet(str(folder)).where("row < 6000"), **given)
    source = str(Path(monocal.__file__).parents[1])
    settings = {"PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings |= {"SPARK_TESTING": "1"}  # a port that is free, instead of the same one for everybody on this machine
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder), json.dumps(given)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert f"fitted {expected.fingerprint}" in ended.stdout, ended.stderr


def test_spark_submit_runs_the_command_line(folder, rows, tmp_path):
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    model = monocal.fit(rows.slice(0, 6_000), method="platt", score="pctr", label="click")
    model.save(tmp_path / "model")
    settings = {"PYTHONPATH": str(Path(monocal.__file__).parents[1]), "PYSPARK_PYTHON": sys.executable}
    settings |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    given = {"env": {**os.environ, **settings}, "capture_output": True, "text": True, "timeout": 550, "check": False}
    file = subprocess.run([sys.executable, "-m", "monocal.spark"], **given).stdout.strip()
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    for conf in ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"):
        submit += ["--conf", conf]
    log, out = folder / "part-0.parquet", tmp_path / "scored"
    ended = subprocess.run(
        [*submit, file, "apply", str(tmp_path / "model"), str(log), "--out", str(out), "--engine", "spark"], **given
    )
    assert ended.returncode == 0, ended.stderr
    assert (out / "_SUCCESS").exists()
    written = pq.read_table(out).sort_by("row")
    assert written["pctr_calibrated"].to_numpy().tolist() == model.predict(pq.read_table(log)).tolist()
