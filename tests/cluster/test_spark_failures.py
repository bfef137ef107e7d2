"""What happens when parts of a cluster are lost: nothing is missing, nothing is there twice, the session lives."""

import contextlib
import threading
import time

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

import monocal
import monocal.spark as ms
from monocal.core.errors import InvalidInput

N_PARTITIONS = 8


def executors():
    """Processes of the session's executors."""
    return [child for child, words in _children() if any("CoarseGrainedExecutorBackend" in word for word in words)]


def python_workers():
    """Python processes that executors forked for tasks: children of their daemons."""
    return [
        worker
        for daemon, words in _children()
        if "pyspark.daemon" in words
        for worker in _of_the_living(daemon.children) or []
    ]


def _children():
    """Living processes below this one, each with the words of its command line."""
    known = [(child, _of_the_living(child.cmdline)) for child in psutil.Process().children(recursive=True)]
    return [(child, words) for child, words in known if words is not None]


def _of_the_living(question):
    """What a process answers, or None if it has ended: the engine ends idle ones at any moment."""
    try:
        return question()
    except psutil.Error:
        return None


def kill_one(victims, deadline):
    """Ends one of the processes that ``victims()`` finds; looks again where it ended by itself."""
    while time.monotonic() < deadline:
        for victim in victims():
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
                return
        time.sleep(0.05)
    raise AssertionError(f"no process to end: {victims.__name__} found none alive")


def test_lost_processes_cost_time_and_nothing_else(spark, folder, rows, tmp_path):
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
    for n_files, victims in ((2, python_workers), (4, executors)):
        deadline = time.monotonic() + 300
        while len(list(out.rglob("*.parquet"))) < n_files and writer.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert writer.is_alive()
        kill_one(victims, deadline)
    writer.join(timeout=300)
    assert errors == []
    assert (out / "_SUCCESS").exists()
    written = pq.read_table(out)
    assert (np.sort(written["row"].to_numpy()) == np.arange(rows.num_rows)).all()
    at = written["row"].to_numpy()
    assert (written["pctr_calibrated"].to_numpy() == model.predict(rows)[at]).all()
    assert not [path for path in out.iterdir() if path.name.startswith("_temp")]
    assert spark.range(3).count() == 3


def members_of_a_fit():
    """Python workers that speak to each other: the members have met."""
    known = {worker: _of_the_living(lambda worker=worker: worker.net_connections("tcp")) for worker in python_workers()}
    ends = {worker: [end for end in mine if end.raddr] for worker, mine in known.items() if mine is not None}
    return [
        worker
        for worker, mine in ends.items()
        if any(
            {end.laddr for end in mine} & {end.raddr for end in its} for other, its in ends.items() if other != worker
        )
    ]


def test_processes_lost_inside_a_barrier_fit_cost_time_and_nothing_else(spark, network):
    df, wishes, expected = network
    found, errors = [], []

    def fit():
        try:
            found.append(ms.fit(df, **wishes))
        except Exception as error:
            errors.append(error)

    fitting = threading.Thread(target=fit)
    fitting.start()
    lost = set()
    for is_executor in (False, True):
        deadline = time.monotonic() + 300
        # members that meet after the first loss are others: all tasks have started again
        while not (met := set(members_of_a_fit()) - lost) and fitting.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert fitting.is_alive()
        lost |= met
        kill_one(executors if is_executor else members_of_a_fit, deadline)
    fitting.join(timeout=300)
    assert errors == []
    assert [model.fingerprint for model in found] == [expected.fingerprint]
    assert spark.range(3).count() == 3


def test_a_bad_row_of_a_fit_or_an_evaluation_is_named(spark):
    n = 50
    given = "id int, p double, y int, w double"
    good = [(number, 0.01 * number, number % 2, 1.0) for number in range(n)]
    # a job that fails is tried four times over, so each kind of row is seen by one verb
    for verb, place, value, message in (
        ("fit", 1, 7.0, r"score column 'p': got 7 in row 37 of partition 0; wanted numbers from 0 to 1"),
        ("evaluate", 2, 2, r"label column 'y': got 2 at row 37 of the table; .* is partition 0 from its row 0 on"),
        ("fit", 3, -1.0, r"weight column 'w': got -1 in row 37 of partition 0"),
    ):
        table = list(good)
        table[37] = (*good[37][:place], value, *good[37][place + 1 :])
        df = spark.createDataFrame(table, given).repartition(1).sortWithinPartitions("id")
        options = {"method": "platt"} if verb == "fit" else {}
        with pytest.raises(InvalidInput, match=message):
            getattr(ms, verb)(df, score="p", label="y", weight="w", **options)
    assert spark.range(3).count() == 3
