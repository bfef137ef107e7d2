"""Rows per CPU second and wall seconds of `apply`: one process, several side by side, one and two Spark executors.

python benchmarks/scale/apply_throughput.py --rows 2000000
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from local_cluster import cpu_seconds, session

import monocal
import monocal.spark as ms
from monocal.lab.simulator import simulate_log

FIELDS = ["site_id", "device", "hour"]
METHODS = ("platt", "wide_logistic", "umc")
N_FILES = 4


def say(how: str, method: str, n_rows: int, wall: float, **cpu: float) -> None:
    """Prints one line; the load is that of the whole machine."""
    total = sum(cpu.values())
    facts = {"how": how, "method": method, "rows": n_rows, "wall s": round(wall, 1)}
    facts |= {name.replace("_", " "): round(seconds, 1) for name, seconds in cpu.items()}
    facts |= {"rows per CPU s": round(n_rows / total, -3), "load": round(os.getloadavg()[0], 1)}
    print(json.dumps(facts), flush=True)


def by_commands(model: Path, log: Path, folder: Path, method: str, n_rows: int, n_processes: int) -> None:
    """Runs `monocal apply` in as many processes at a time as asked, each on its share of the files."""
    files = sorted(map(str, log.iterdir()))
    started, commands = time.perf_counter(), []
    for number in range(n_processes):
        mine = files[number::n_processes]
        words = [sys.executable, "-m", "monocal", "apply", str(model), *mine, "--n-threads", "1"]
        words += ["--out", str(folder / f"scored-{number}.parquet")]
        commands.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}))
    cpu = 0.0
    for command in commands:
        _, status, used = os.wait4(command.pid, 0)
        if status:
            raise SystemExit(f"{command.args} ended with {status}")
        cpu += used.ru_utime + used.ru_stime
    say(f"{n_processes} × monocal apply", method, n_rows, time.perf_counter() - started, cpu_s=cpu)


def on_spark(how: str, method: str, n_rows: int, work: Callable[[], Any]) -> None:
    """Runs one pass twice and prints the second."""
    work()
    (java, python), started = cpu_seconds(), time.perf_counter()
    work()
    wall, (java_after, python_after) = time.perf_counter() - started, cpu_seconds()
    say(how, method, n_rows, wall, jvm_cpu_s=java_after - java, python_cpu_s=python_after - python)


def main(n_rows: int, ways: list[str]) -> None:
    """Fits the methods on few rows and applies them to all in every way."""
    table = simulate_log(n_rows, seed=0).table()
    given: dict[str, Any] = {"score": "pctr", "label": "click", "fields": FIELDS}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        log = folder / "log"
        log.mkdir()
        share = -(-n_rows // N_FILES)
        for number in range(N_FILES):
            pq.write_table(table.slice(number * share, share), log / f"{number}.parquet", row_group_size=100_000)
        models = {}
        for method in METHODS:
            few = {"umc": {"n_epochs": 1}}.get(method, {})
            models[method] = folder / method
            monocal.fit(table.slice(0, 50_000), method=monocal.calibrator(method, **few), **given).save(models[method])
        del table
        for n_processes in (1, 2, 4) if "commands" in ways else ():
            for method, model in models.items():
                by_commands(model, log, folder, method, n_rows, n_processes)
        for n_executors in (1, 2) if "spark" in ways else ():
            with session(n_executors) as spark:
                df, out = spark.read.parquet(str(log)), folder / "out"

                def written(frame: Any, out: Path = out) -> Callable[[], None]:
                    return lambda: frame.write.mode("overwrite").parquet(str(out))

                how = f"Spark, {n_executors} executor{'s' * (n_executors > 1)}"
                on_spark(how, "copy", n_rows, written(df))
                for method, model in models.items():
                    on_spark(how, method, n_rows, written(ms.apply(df, model)))
                shutil.rmtree(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--ways", nargs="+", choices=["commands", "spark"], default=["commands", "spark"])
    given = parser.parse_args()
    main(given.rows, given.ways)
