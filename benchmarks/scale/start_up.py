"""What a first job waits for: Spark's session, its first tasks, imports, and compiled loops with and without a cache.

python benchmarks/scale/start_up.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from local_cluster import cpu_seconds, session

import monocal
import monocal.spark as ms
from monocal.lab.simulator import simulate_log

PREDICT = "import sys, monocal, pyarrow.parquet as pq; monocal.load(sys.argv[1]).predict(pq.read_table(sys.argv[2]))"


def say(what: str, wall: float, cpu: float) -> None:
    print(json.dumps({"what": what, "wall s": round(wall, 1), "cpu s": round(cpu, 1), "load": os.getloadavg()[0]}))


def process(what: str, code: str, *words: str, n_times: int = 3, **settings: str) -> None:
    """Runs a program in a fresh process and prints the run that took the least CPU."""
    runs = []
    for _ in range(n_times):
        started = time.perf_counter()
        ran = subprocess.Popen([sys.executable, "-c", code, *words], env={**os.environ, **settings})
        _, status, used = os.wait4(ran.pid, 0)
        if status:
            raise SystemExit(f"{what} ended with {status}")
        runs.append((used.ru_utime + used.ru_stime, time.perf_counter() - started))
    cpu, wall = min(runs)
    say(what, wall, cpu)


def job(what: str, work: Callable[[], Any]) -> None:
    """Runs one Spark job and prints the CPU of Spark's processes."""
    before, started = sum(cpu_seconds()), time.perf_counter()
    work()
    say(what, time.perf_counter() - started, sum(cpu_seconds()) - before)


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main() -> None:
    """Measures processes, then one session from its start on."""
    table = simulate_log(20_000, seed=0).table()
    given: dict[str, Any] = {"score": "pctr", "label": "click", "fields": ["site_id", "device"]}
    with tempfile.TemporaryDirectory() as place:
        model, rows = str(Path(place) / "model"), str(Path(place) / "rows.parquet")
        monocal.fit(table, method=monocal.Umc(n_epochs=1), **given).save(model)
        pq.write_table(table.slice(0, 1000), rows)
        process("python itself", "pass")
        process("import monocal", "import monocal")
        process("import monocal.spark", "import monocal.spark")
        process("import torch", "import torch")
        cache = {"NUMBA_CACHE_DIR": str(Path(place) / "loops")}
        process("umc: load, 1,000 rows, nothing compiled yet", PREDICT, model, rows, n_times=1, **cache)
        process("umc: load, 1,000 rows, compiled before", PREDICT, model, rows, **cache)
        before, started = sum(cpu_seconds()), time.perf_counter()
        with session() as spark:
            say("Spark session, two executors", time.perf_counter() - started, sum(cpu_seconds()) - before)
            job("first job, no Python", lambda: spark.range(1000).repartition(2).count())
            job("the same again", lambda: spark.range(1000).repartition(2).count())
            few = spark.range(1000).repartition(2)
            job("first job with Python workers", lambda: few.mapInArrow(same, "id long").count())
            job("the same again", lambda: few.mapInArrow(same, "id long").count())
            df = spark.read.parquet(rows).repartition(2)
            job("first ms.apply of umc", lambda: ms.apply(df, model).collect())
            job("the same again", lambda: ms.apply(df, model).collect())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
