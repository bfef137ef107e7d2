"""A Spark of this machine whose executors are processes of their own, and the CPU seconds that it has spent."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

import monocal


def cpu_seconds() -> tuple[float, float]:
    """CPU of Spark's JVMs, and of its Python workers."""
    spent = {"java": 0.0, "python": 0.0}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = process.cpu_times()
            kind = "java" if "java" in process.name() else "python"
            # Python workers that have ended are counted by the daemon that started them
            ended = times.children_user + times.children_system if kind == "python" else 0.0
            spent[kind] += times.user + times.system + ended
    return spent["java"], spent["python"]


@cache
def own_home() -> tempfile.TemporaryDirectory[str]:
    """A folder that looks like Spark's: executors work below it, and not in a folder that others share."""
    import pyspark

    home = tempfile.TemporaryDirectory()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (Path(home.name) / entry.name).symlink_to(entry)
    return home


@contextmanager
def session(n_executors: int = 2, **settings: str) -> Iterator[Any]:
    """A session whose executors have one core each; settings go to Spark as they are."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = own_home().name
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(f"local-cluster[{n_executors},1,2048]")
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
        "spark.executorEnv.PYTHONPATH": str(Path(monocal.__file__).parents[1]),
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        **settings,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
