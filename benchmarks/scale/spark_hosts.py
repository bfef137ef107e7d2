"""Spark with a worker on each of several hosts, which are network namespaces of this machine: a barrier fit whose two
tasks are on two hosts, against one process, then apply and evaluate. A line of JSON per case.

python benchmarks/scale/spark_hosts.py bits        # needs root, iproute2 and java
python benchmarks/scale/spark_hosts.py lost        # everything on the second host is killed in the middle of the fit
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from network_hosts import Hosts
from several_hosts import SOURCE, bits_of, told

import monocal
from monocal.core.reduce import Local, Partition
from monocal.evaluation.table import evaluate_table
from monocal.lab.simulator import simulate_log
from monocal.tables.roles import Roles
from monocal.tables.table import Table

PARTS = {"score": "pctr", "label": "click", "fields": ["site_id", "device"], "time": "timestamp"}
SHORT = {"size": "small", "n_epochs": 2, "n_dimensions": 4}
LONG = {**SHORT, "n_epochs": 100, "carry": "none"}
N_TASKS = 2
METRICS = ["log_loss", "ne", "brier", "pcoc", "ece"]
SPARK_PORT = 7077


def driver(table: str, master: str, address: str, settings: dict[str, Any], folder: Path) -> None:
    """Fits, applies and evaluates from the first host, and prints how near that is to one process."""
    from pyspark.sql import SparkSession

    import monocal.spark as ms

    given = {
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.cores.max": str(N_TASKS),
        "spark.executor.cores": "1",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
        "spark.executorEnv.PYTHONPATH": SOURCE,
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "2s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "100",
    }
    builder = SparkSession.builder.master(master)
    for key, value in given.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        df = session.read.parquet(table)
        _wait_for_executors(session)
        facts: dict[str, Any] = {"executors": _executor_hosts(session)}
        (folder / "fitting").touch()
        start = time.monotonic()
        model = ms.fit(df, method=monocal.calibrators.calibrator("umc", **settings), **PARTS, workers=N_TASKS)
        facts["fit s"] = round(time.monotonic() - start, 1)
        facts["executors after"] = _executor_hosts(session)
        alone = _by_one_process(df, settings, model)
        facts |= {"bits": bits_of(model), "same": bits_of(model) == alone}
        rows = pq.read_table(table)
        start = time.monotonic()
        scored = ms.apply(df.repartition(4), model).select("row", "pctr_calibrated").orderBy("row").toArrow()
        facts["apply s"] = round(time.monotonic() - start, 1)
        facts["apply: same bits"] = bool(np.array_equal(scored["pctr_calibrated"].to_numpy(), model.predict(rows)))
        start = time.monotonic()
        report = ms.evaluate(df.repartition(4), model=model, metrics=METRICS).tasks["click"]["after"]
        facts["evaluate s"] = round(time.monotonic() - start, 1)
        local = evaluate_table(rows, model=model, metrics=METRICS).tasks["click"]
        far = max(abs(report.value(name) / local.value(name) - 1) for name in METRICS)
        facts["evaluate: farthest, relative"] = float(f"{far:.1e}")
        print(json.dumps(facts), flush=True)
    finally:
        session.stop()


def _executor_hosts(session: Any) -> list[str]:
    """Addresses of the executors that there are now."""
    hosts = [info.host() for info in session._sc._jsc.sc().statusTracker().getExecutorInfos()]
    hosts.remove(session._sc.getConf().get("spark.driver.host"))  # the driver counts as one
    return sorted(hosts)


def _wait_for_executors(session: Any) -> None:
    deadline = time.monotonic() + 120
    while session._sc.defaultParallelism < N_TASKS or len(_executor_hosts(session)) < N_TASKS:
        if time.monotonic() > deadline:
            raise SystemExit(f"executors: got {_executor_hosts(session)}; expected {N_TASKS}")
        time.sleep(0.2)


def _by_one_process(df: Any, settings: dict[str, Any], model: Any) -> str:
    """The bits that this process learns from the shards that the tasks deal themselves."""
    from pyspark.sql import functions as F

    roles = Roles(**PARTS)
    columns = [f"`{name}`" for name in roles.columns]
    dealt = df.select(*columns).repartition(N_TASKS, *columns).sortWithinPartitions(f"`{roles.time}`", *columns)
    table = dealt.withColumn("shard", F.spark_partition_id()).toArrow()
    edges = np.searchsorted(table["shard"].to_numpy(), range(N_TASKS + 1))
    rows = Table.read(table, roles)
    shards = Partition(Local(), N_TASKS, tuple(range(N_TASKS)), edges, rows.times)
    found = monocal.calibrators.calibrator("umc", **settings)
    features = model.vocabulary.encode(table)
    found.fit(rows.scores["click"], rows.labels["click"], features=features, times=rows.times, shards=shards)
    return bits_of(found)


class Cluster:
    """A master on the first host and a worker with one core on each."""

    def __init__(self, hosts: Hosts, folder: Path, by_name: bool) -> None:
        import pyspark

        self.hosts, self.folder, self.by_name = hosts, folder, by_name
        self._spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self.master = f"spark://{self._place(0)}:{SPARK_PORT}"
        options = ["--host", self._place(0), "--port", SPARK_PORT, "--webui-port", 0]
        self._start(0, "master.Master", *options)
        for host in range(len(hosts.addresses)):
            self.add_worker(host)

    def _place(self, host: int) -> str:
        return self.hosts.names[host] if self.by_name else self.hosts.addresses[host]

    def add_worker(self, host: int) -> None:
        options = ["--host", self._place(host), "--cores", 1, "--memory", "1200m", "--webui-port", 0]
        self._start(host, "worker.Worker", *options, "--work-dir", self.folder / f"work-{host}", self.master)

    def _start(self, host: int, what: str, *words: Any) -> None:
        output = self.folder / f"{what}-{host}.txt"
        self.hosts.start(
            host, [self._spark_class, f"org.apache.spark.deploy.{what}", *words], output, **self.environment(host)
        )

    def environment(self, host: int) -> dict[str, str]:
        given = {"SPARK_LOCAL_IP": self.hosts.addresses[host], "PYSPARK_PYTHON": sys.executable}
        java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        return {
            **given,
            "SPARK_HOME": str(self._spark_class.parents[1]),
            "JDK_JAVA_OPTIONS": java,
            "PYTHONPATH": SOURCE,
        }

    def drive(self, table: Path, settings: dict[str, Any]) -> Any:
        """Starts the driver on the first host."""
        words = ["driver", table, self.master, self.hosts.addresses[0], json.dumps(settings), self.folder]
        line = [sys.executable, Path(__file__).resolve(), *words]
        return self.hosts.start(0, line, self.folder / "driver.txt", **self.environment(0))


def case(table: Path, folder: Path, n: int, names: str, settings: dict[str, Any], lost: bool = False) -> None:
    """Runs the driver once and prints what it found."""
    folder.mkdir()
    with Hosts(n, names) as hosts:
        cluster = Cluster(hosts, folder, by_name=names == "addresses")
        driving = cluster.drive(table, settings)
        start = time.monotonic()
        facts: dict[str, Any] = {"hosts": n, "names": names}
        if lost:
            victim = _host_of_a_member(hosts, driving)
            time.sleep(3.0)
            facts["lost host"], facts["processes killed"] = victim + 1, _kill(hosts.running(victim))
        while driving.poll() is None and time.monotonic() < start + 400:
            time.sleep(0.1)
        facts |= {"code": driving.poll(), "wall s": round(time.monotonic() - start, 1)}
    said = (folder / "driver.txt").read_text(errors="replace").splitlines()
    found = [json.loads(line) for line in said if line.startswith('{"executors"')]
    told(**facts, **(found[0] if found else {"said": said[-5:]}))


def _host_of_a_member(hosts: Hosts, driving: Any) -> int:
    """Waits until Python workers of two hosts speak to each other, and returns the one that is not the first."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and driving.poll() is None:
        for host in range(1, len(hosts.addresses)):
            if any("python" in line for line in hosts.connections(host)):
                return host
        time.sleep(0.05)
    raise SystemExit("no member of a fit was seen on another host")


def _kill(pids: list[int]) -> int:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


if __name__ == "__main__":
    if sys.argv[1:2] == ["driver"]:
        table, master, address, settings, place = sys.argv[2:]
        driver(table, master, address, json.loads(settings), Path(place))
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bits", "lost"])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--keep", type=Path, help="a new folder for what the processes said")
    given = parser.parse_args()
    if shutil.which("java") is None:
        raise SystemExit("java: not found; expected 17 or later. Hint: install a JRE.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        log = simulate_log(given.rows, seed=3).table()
        table = folder / "log.parquet"
        pq.write_table(log.append_column("row", [np.arange(log.num_rows)]), table)
        if given.what == "bits":
            case(table, folder / "addresses", 2, "none", SHORT)
            case(table, folder / "names", 2, "addresses", SHORT)
        else:
            case(table, folder / "spare", 3, "none", LONG, lost=True)
