"""What happens when parts of a cluster are lost: nothing is missing, nothing is there twice, the session lives."""

import threading
import time

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

import monocal
import monocal.spark as ms

N_PARTITIONS = 8


def executors():
    """Processes of the session's executors."""
    return [one for one in _children() if any("CoarseGrainedExecutorBackend" in word for word in one.cmdline())]


def python_workers():
    """Python processes that executors forked for tasks: children of their daemons."""
    daemons = [one for one in _children() if "pyspark.daemon" in one.cmdline()]
    return [child for one in daemons for child in one.children()]


def _children():
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            one.cmdline()
            found.append(one)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("victims", [executors, python_workers], ids=["executor", "python worker"])
def test_a_lost_process_costs_time_and_nothing_else(spark, folder, rows, tmp_path, victims):
    model = monocal.fit(rows.slice(0, 6_000), method="platt", score="pctr", label="click")
    df = spark.read.parquet(str(folder)).select("row", "pctr").repartitionByRange(N_PARTITIONS, "row")
    df = df.sortWithinPartitions("row")

    def slowly(batches):  # gives the test time to kill somebody while files are half written
        for batch in batches:
            time.sleep(1.5)
            yield batch

    scored = ms.apply(df.mapInArrow(slowly, df.schema), model)
    out, errors = tmp_path / "scored", []

    def write():
        try:
            scored.write.parquet(str(out))
        except Exception as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    deadline = time.monotonic() + 300
    while len(list(out.rglob("*.parquet"))) < 2 and writer.is_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    killed = victims()[0]
    assert writer.is_alive()
    killed.kill()
    writer.join(timeout=300)
    assert errors == []
    assert (out / "_SUCCESS").exists()
    written = pq.read_table(out)
    assert (np.sort(written["row"].to_numpy()) == np.arange(rows.num_rows)).all()
    at = written["row"].to_numpy()
    assert (written["pctr_calibrated"].to_numpy() == model.predict(rows)[at]).all()
    assert not [one for one in out.iterdir() if one.name.startswith("_temp")]
    assert spark.range(3).count() == 3
