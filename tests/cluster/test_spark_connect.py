"""The same on Spark Connect, where there is no Spark context: in a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import monocal

SCRIPT = """
import sys
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
import monocal, monocal.spark as ms

folder = sys.argv[1]
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
builder = SparkSession.builder.remote("local[2]")
for key, value in {**settings, "spark.sql.shuffle.partitions": "2"}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
df, rows = spark.read.parquet(folder), pq.read_table(folder)
model = ms.fit(df, method="platt", score="pctr", label="click")
scored = ms.apply(df, model).toArrow().sort_by("row")
assert (scored["pctr_calibrated"].to_numpy() == model.predict(rows)).all()
found = ms.evaluate(df, model=model, metrics=["pcoc", "fece"], fields=["device"]).tasks["click"]["after"]
assert abs(found.value("pcoc") - 1.0) < 1e-9
print("connect works")
spark.stop()
"""


def test_fit_apply_and_evaluate_need_no_spark_context(folder):
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    source = str(Path(monocal.__file__).parents[1])
    settings = {"PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert "connect works" in ended.stdout, ended.stderr
