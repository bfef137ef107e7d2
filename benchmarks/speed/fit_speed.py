"""A default fit of umc on a large Parquet log: wall, CPU and peak memory, phase by phase, with one thread and with two.

python benchmarks/speed/fit_speed.py                             # 8,000,000 × 21, some twenty minutes
python benchmarks/speed/fit_speed.py --rows 1000000              # about two minutes on a quiet machine
python benchmarks/speed/fit_speed.py --rows 8000000 --threads 1  # without the second number of threads
python benchmarks/speed/fit_speed.py --promotions         # weeks 32 to 41 of the installed promotions log
python benchmarks/speed/fit_speed.py --table t.parquet --score p --label sold --time week --fields store_id,brand
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from suite.promotions_rows import COLUMNS, write_promotions

from monocal.lab.simulator import find_world, write_simulated_log

PHASES = {
    "reading": ("monocal.tables.table", "Table.read"),
    "vocabulary and ids": ("monocal.tables.table", "Table.encoded"),
    "carry-over: wide fits forward in time": ("monocal.neural.base", "learn_carry_over"),
    "networks, trial and last": ("monocal.neural.base", "NeuralCalibrator._train"),
    "shifts beside the network": ("monocal.neural.base", "refit_shifts"),
}


def main() -> None:
    """Simulates the log once, fits it in a process per number of threads, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/fit_speed"))
    parser.add_argument("--promotions", action="store_true", help="fit weeks 32 to 41 of the promotions log")
    parser.add_argument("--table", type=Path, help="fit this table instead of a simulated one")
    parser.add_argument("--score", default="pctr")
    parser.add_argument("--label", default="click")
    parser.add_argument("--time", default="timestamp")
    parser.add_argument("--fields", default=",".join(field.name for field in find_world("large").fields))
    parser.add_argument("--fit", type=int, metavar="THREADS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        print(json.dumps(_fit(arguments)))
        return
    load = os.getloadavg()[0]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.promotions:
        log = arguments.folder / "promotions.parquet"
        if not log.exists():
            write_promotions(log)
        what = "weeks 32 to 41 of the promotions log, the score being the product's rate of sales in earlier weeks"
        vars(arguments).update(COLUMNS)
    elif arguments.table is None:
        log = arguments.folder / f"large_{arguments.rows}.parquet"
        if not log.exists():
            write_simulated_log(log, arguments.rows, world="large")
        what = "a Parquet file of the simulated world `large`"
    else:
        log, what = arguments.table, f"`{arguments.table.name}`"
    columns = [f"--{name}={getattr(arguments, name)}" for name in ("score", "label", "time", "fields")]
    found = {n: _in_a_process([f"--table={log}", f"--fit={n}", *columns]) for n in arguments.threads}
    print("\n".join(_report(what, found, load)))


def _in_a_process(options: list[str]) -> dict[str, Any]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, "1")
    command = [sys.executable, __file__, *options]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def _fit(arguments: argparse.Namespace) -> dict[str, Any]:
    import importlib

    import monocal

    phases: dict[str, list[float]] = {}
    for label, (module, path) in PHASES.items():
        owner: Any = importlib.import_module(module)
        *inner, name = path.split(".")
        for part in inner:
            owner = getattr(owner, part)
        setattr(owner, name, _timed(getattr(owner, name), phases.setdefault(label, [0.0, 0.0, 0.0])))
    fields = arguments.fields.split(",")
    columns = {"score": arguments.score, "label": arguments.label, "time": arguments.time, "fields": fields}
    clocks = time.perf_counter(), time.process_time()
    model = monocal.fit(arguments.table, method=monocal.Umc(n_threads=arguments.fit), **columns)
    wall, cpu = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sizes, rows = sum(model.vocabulary.sizes), pq.read_metadata(arguments.table).num_rows
    facts = {"values": sizes, "fields": len(fields), "rows": rows}
    return {"phases": phases, "wall": wall, "cpu": cpu, "peak": peak, **facts}


def _timed(call: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    def timed(*arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return call(*arguments, **options)  # the trial beside the last training
        clocks = time.perf_counter(), time.process_time()
        found = call(*arguments, **options)
        spent[0] += time.perf_counter() - clocks[0]
        spent[1] += time.process_time() - clocks[1]
        spent[2] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return found

    return timed


def _report(what: str, found: dict[int, dict[str, Any]], load: float) -> list[str]:
    any_run = next(iter(found.values()))
    rows = any_run["rows"]
    lines = [
        "# A default fit of umc on a large log",
        "",
        f"`python benchmarks/speed/fit_speed.py {' '.join(sys.argv[1:])}`",
        "",
        f"`monocal.fit` on {what}: {rows:,} rows × {any_run['fields']} text "
        f"fields with {any_run['values']:,} values, carry-over as by default, in a new process. {platform.machine()}, "
        f"{os.cpu_count()} cores, load average {load:.1f} at the start. The peak is that of the process up to the end "
        "of a phase, so it never falls.",
        "",
    ]
    for n_threads, run in found.items():
        rest = [
            run[name] - sum(spent[place] for spent in run["phases"].values())
            for place, name in enumerate(("wall", "cpu"))
        ]
        lines += [
            f"## {n_threads} thread{'s' if n_threads > 1 else ''}",
            "",
            "| phase | wall s | CPU s | peak RSS so far, MiB |",
            "| --- | --- | --- | --- |",
            *(
                f"| {name} | {spent[0]:,.1f} | {spent[1]:,.1f} | {spent[2]:,.0f} |"
                for name, spent in run["phases"].items()
            ),
            f"| everything else | {rest[0]:,.1f} | {rest[1]:,.1f} | |",
            f"| **all** | {run['wall']:,.1f} | {run['cpu']:,.1f} | {run['peak']:,.0f} |",
            "",
            f"{run['peak'] / rows * 1e6:,.0f} MiB of the peak per million rows, all libraries included.",
            "",
        ]
        if n_threads > 1:
            lines += ["CPU seconds are those of the process; the trial's training goes on beside other phases.", ""]
    if {1, 2} <= set(found):
        lines += [f"Two threads take {found[1]['wall'] / found[2]['wall']:.2f}× less wall time than one.", ""]
    return lines


if __name__ == "__main__":
    main()
