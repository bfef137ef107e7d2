"""Spark really started: two executors of their own processes, on this machine's loopback."""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.lab.simulator import simulate_log


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def spark():
    """A session with two executors, each a process with its own Python workers."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    work = Path(pyspark.__file__).parent / "work"
    work_was_there = work.exists()
    source = str(Path(monocal.__file__).parents[1])
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.files.maxPartitionBytes", "256k")
        .config("spark.sql.files.openCostInBytes", "1k")
        .config("spark.executorEnv.PYTHONPATH", source)
        .config("spark.executorEnv.OMP_NUM_THREADS", "1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()
        if not work_was_there:
            shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A log in three files: rows in a known order, nulls in a field, a second task, weights and sampling rates."""
    log = simulate_log(30_000, seed=3).table()
    place = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(0)
    sites = pa.array([None if rng.random() < 0.05 else one for one in log["site_id"].to_pylist()])
    table = log.set_column(log.column_names.index("site_id"), "site_id", sites)
    table = table.append_column("row", pa.array(np.arange(log.num_rows)))
    table = table.append_column("rate", pa.array(rng.uniform(0.2, 1.0, log.num_rows)))
    table = table.append_column("weight", pa.array(rng.integers(0, 4, log.num_rows) * 0.5))
    buys = rng.random(log.num_rows) < 0.05
    table = table.append_column("buy", pa.array(buys.astype(np.int8), mask=rng.random(log.num_rows) < 0.5))
    for part in range(3):
        pq.write_table(table.slice(part * 11_000, 11_000), place / f"part-{part}.parquet")
    return place


@pytest.fixture(scope="session")
def rows(folder):
    return pq.read_table(folder)
