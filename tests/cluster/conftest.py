"""Spark and torchrun really started: executors and members in processes of their own, on this machine's loopback."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.reduce import DEALT_ROWS
from monocal.lab.prepare.splits import split_by_share
from monocal.lab.simulator import simulate_log
from monocal.tables.encoded import save_encoded
from monocal.tables.roles import Roles
from monocal.tables.table import Table

SOURCE = str(Path(monocal.__file__).parents[1])

OF_SPARK_3_5 = (
    "ignore:distutils Version classes are deprecated:DeprecationWarning",  # with which it compares versions
    "ignore:unclosed <socket.socket:ResourceWarning",  # by which rows came to the driver
)
"""What that version does in every job, and 4 no longer."""


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.cluster)
            for warning in OF_SPARK_3_5:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session", autouse=True)
def short_lived_java():
    """Every JVM of these tests ends within minutes. Without its second compiler it takes half of the CPU seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


class Launcher:
    """torchrun on this machine's loopback, and all processes that it was seen to have.

    Attributes:
        members: Its processes, those that ended included.
    """

    def __init__(self, options, words):
        self.members = set()
        self._running = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *map(str, options), *map(str, words)],
            env={**os.environ, "PYTHONPATH": SOURCE, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self):
        """Waits for its end and returns the code and what was said."""
        deadline = time.monotonic() + 500
        while True:
            with suppress(psutil.NoSuchProcess):
                self.members |= set(psutil.Process(self._running.pid).children(recursive=True))
            try:
                out, errors = self._running.communicate(timeout=0.1)
            except subprocess.TimeoutExpired:
                assert time.monotonic() < deadline, "the launcher goes on and on"
            else:
                return subprocess.CompletedProcess(self._running.args, self._running.returncode, out, errors)

    def left_behind(self):
        """Which of its processes still run."""
        return [member for member in self.members if _runs(member)]

    def clear(self):
        """Ends all of them, at whatever moment."""
        if self._running.poll() is None:
            self._running.send_signal(signal.SIGSTOP)  # so that it starts no more
            self.members |= set(psutil.Process(self._running.pid).children(recursive=True))
            self._running.kill()
        for member in self.left_behind():
            with suppress(psutil.NoSuchProcess):
                member.kill()
        self._running.communicate()


def _runs(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="session")
def launched():
    """Starts launchers: their options, then the words of what their processes run. None outlives the tests."""
    launchers = []

    def launched(options, *words):
        launchers.append(Launcher(options, words))
        return launchers[-1]

    try:
        yield launched
    finally:
        for launcher in launchers:
            launcher.clear()


@pytest.fixture
def free_port():
    """One below those that the system gives to whoever asks for any, so that nobody takes it until it is used."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("every port is taken")


@pytest.fixture(scope="session")
def save_with_parts():
    """Writes the folder of a log with the parts of one that was prepared."""

    def save(table, roles, place):
        rows = Table.read(table, roles).in_time_order().encoded()
        return save_encoded(replace(rows, parts=split_by_share(rows.n_rows)), place)

    return save


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, save_with_parts):
    """A log whose rows to fit lie in all of four shards."""
    place = tmp_path_factory.mktemp("prepared") / "log"
    roles = Roles(score="pctr", label="click", fields=["site_id", "device"], time="timestamp")
    log = save_with_parts(simulate_log(80_000, seed=7).table(), roles, place)
    assert log.part("calibration").n_rows > 3 * DEALT_ROWS
    return place


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory):
    """A folder that looks like Spark's. Executors work below it: in the installation two runs would share a folder,
    and the first to end would remove it under the other's feet."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    home = tmp_path_factory.mktemp("spark")
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


@pytest.fixture(scope="session")
def spark(spark_home):
    """A session with two executors, each a process with its own Python workers."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    from pyspark.sql import SparkSession

    os.environ["SPARK_HOME"] = str(spark_home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.files.maxPartitionBytes", "512k")
        .config("spark.sql.files.openCostInBytes", "1k")
        .config("spark.executorEnv.PYTHONPATH", SOURCE)
        .config("spark.executorEnv.OMP_NUM_THREADS", "1")
        .config("spark.log.level", "ERROR")
        # two for the processes that tests end, and one more; a bad row fails as often
        .config("spark.task.maxFailures", "3")
        # a barrier stage that waits for the successor of a lost executor looks again soon
        .config("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "2s")
        .config("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", "300")
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A log in three files: rows in a known order, nulls in a field, a second task, weights and sampling rates."""
    log = simulate_log(30_000, seed=3).table()
    place = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(0)
    sites = pa.array([None if rng.random() < 0.05 else value for value in log["site_id"].to_pylist()])
    table = log.set_column(log.column_names.index("site_id"), "site_id", sites)
    table = table.append_column("row", pa.array(np.arange(log.num_rows)))
    table = table.append_column("rate", pa.array(rng.uniform(0.2, 1.0, log.num_rows)))
    table = table.append_column("weight", pa.array(rng.integers(0, 4, log.num_rows) * 0.5))
    table = table.append_column("price", pa.array(rng.lognormal(2.0, 1.0, log.num_rows)))
    buys = rng.random(log.num_rows) < 0.05
    table = table.append_column("buy", pa.array(buys.astype(np.int8), mask=rng.random(log.num_rows) < 0.5))
    for part in range(3):
        pq.write_table(table.slice(part * 11_000, 11_000), place / f"part-{part}.parquet")
    return place


@pytest.fixture(scope="session")
def rows(folder):
    return pq.read_table(folder)
