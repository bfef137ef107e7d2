"""What happens when parts of a cluster are lost: nothing is missing, nothing is there twice, the session lives."""

import contextlib
import os
import threading
import time

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

import monocal
import monocal.spark as ms
from monocal.core.errors import InvalidInput
from monocal.spark.fit import check_slots

N_PARTITIONS = 8
PATIENCE_SECONDS = 300


def test_lost_processes_cost_time_and_nothing_else(spark, folder, rows, tmp_path):
    model = monocal.fit(rows.slice(0, 6_000), method="platt", score="pctr", label="click")
    df = spark.read.parquet(str(folder)).select("row", "pctr").repartitionByRange(N_PARTITIONS, "row")
    scored = ms.apply(df.sortWithinPartitions("row"), model)
    doors = {half: tmp_path / f"door {half}" for half in (0, 1)}

    def held(batches):
        """Gives most rows of a batch, says where it is, and waits until its door is open: files are half written."""
        from pyspark import TaskContext

        half = TaskContext.get().partitionId() * 2 // N_PARTITIONS
        deadline = time.monotonic() + PATIENCE_SECONDS
        for batch in batches:
            yield batch.slice(0, batch.num_rows - 100)
            (tmp_path / f"waits {half} {os.getpid()}").touch()
            while not doors[half].exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch.slice(batch.num_rows - 100)

    out, errors = tmp_path / "scored", []

    def write():
        try:
            scored.mapInArrow(held, scored.schema).write.parquet(str(out))
        except Exception as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for half, choose in ((0, lambda worker: worker), (1, executor_of)):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (waiting := list(tmp_path.glob(f"waits {half} *"))):
            assert writer.is_alive(), errors
            assert time.monotonic() < deadline, "no task has written anything"
            time.sleep(0.05)
        choose(psutil.Process(int(waiting[0].name.split()[-1]))).kill()
        doors[half].touch()
    writer.join(timeout=PATIENCE_SECONDS)
    assert errors == []
    assert (out / "_SUCCESS").exists()
    written = pq.read_table(out)
    assert (np.sort(written["row"].to_numpy()) == np.arange(rows.num_rows)).all()
    at = written["row"].to_numpy()
    assert (written["pctr_calibrated"].to_numpy() == model.predict(rows)[at]).all()
    assert not [path for path in out.iterdir() if path.name.startswith("_temp")]
    assert spark.range(3).count() == 3


def executor_of(worker):
    """The executor whose tasks a Python worker does."""
    (found,) = (
        above for above in worker.parents() if any("CoarseGrainedExecutorBackend" in w for w in above.cmdline())
    )
    return found


def members_of_a_fit():
    """Python workers that speak to each other: the members have met."""
    ends = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # the engine ends idle ones at any moment
            if "pyspark.daemon" in process.parent().cmdline():
                ends[process] = [end for end in process.net_connections("tcp") if end.raddr]
    return [
        worker
        for worker, mine in ends.items()
        if any(
            {end.laddr for end in mine} & {end.raddr for end in its} for other, its in ends.items() if other != worker
        )
    ]


def wait_for_slots(spark, n):
    """Waits until executors that were lost are back; a fit that begins before is refused, which is right."""
    for _ in range(10 * PATIENCE_SECONDS):
        with contextlib.suppress(InvalidInput):
            return check_slots(spark, n)
        time.sleep(0.1)
    pytest.fail(f"Spark has fewer than {n} slots")


def test_processes_lost_inside_a_barrier_fit_cost_time_and_nothing_else(spark, folder):
    df = spark.read.parquet(str(folder)).where("row < 6000")
    given = {"method": "wide_logistic", "score": "pctr", "label": "click", "fields": ["site_id"], "time": "timestamp"}
    wait_for_slots(spark, 2)
    expected = ms.fit(df, **given)
    found, errors = [], []

    def fit():
        try:
            found.append(ms.fit(df, **given))
        except Exception as error:
            errors.append(error)

    victims, lost = [lambda worker: worker, executor_of], set()
    for _ in range(5):  # a fit that ended before its members were seen lost nobody
        wait_for_slots(spark, 2)
        fitting = threading.Thread(target=fit)
        fitting.start()
        while victims and fitting.is_alive():
            # members that meet after the first loss are others: all tasks have started again
            met = set(members_of_a_fit()) - lost
            for member in met:
                with contextlib.suppress(psutil.NoSuchProcess):
                    victims[0](member).kill()
                    lost |= met
                    del victims[0]
                    break
            time.sleep(0.05)
        fitting.join(timeout=PATIENCE_SECONDS)
        if not victims:
            break
    assert errors == []
    assert not victims
    assert {model.fingerprint for model in found} == {expected.fingerprint}
    assert spark.range(3).count() == 3
