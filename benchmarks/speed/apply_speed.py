"""How fast `monocal apply` is on a log of 21 fields, and that its memory does not grow with the rows.

python benchmarks/speed/apply_speed.py                  # 2 million rows, some minutes
python benchmarks/speed/apply_speed.py --rows 300000    # a quick look

The command is run as people run it, in a process of its own: Parquet in, Parquet out, all columns kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

import monocal
from monocal.lab.simulator import WORLDS, write_simulated_log

_FIT_ROWS = 200_000
_FIELDS = [field.name for field in WORLDS["large"].fields]


@dataclass
class Run:
    """One run of the command."""

    n_rows: int
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = write_simulated_log(folder / "log.parquet", arguments.rows, world="large")
        quarter, few = folder / "quarter.parquet", folder / "few.parquet"
        pq.write_table(pq.read_table(log).slice(0, arguments.rows // 4), quarter)
        pq.write_table(pq.read_table(log).slice(0, 1000), few)
        fit_on = pq.read_table(log).slice(0, _FIT_ROWS)
        lines = []
        for method in arguments.methods.split(","):
            model = folder / method
            # one epoch is enough: how well it fits changes nothing about the time to apply it
            options = {"n_epochs": 1} if "n_epochs" in monocal.calibrator(method).get_params() else {}
            fitted = monocal.fit(
                fit_on, method=monocal.calibrator(method, **options), score="pctr", label="click", fields=_FIELDS
            )
            fitted.save(model)
            _apply(model, few, folder, arguments.threads)
            start = _apply(model, few, folder, arguments.threads)
            small = _apply(model, quarter, folder, arguments.threads)
            whole = min(
                (_apply(model, log, folder, arguments.threads) for _ in range(arguments.repeats)),
                key=lambda run: run.cpu_seconds,
            )
            times = _thread_times(model, few, log, folder, arguments.threads)
            lines.append(_line(method, start, small, whole, times))
            print(lines[-1], file=sys.stderr)
    print(_page(arguments, lines))


def _apply(model: Path, table: Path, folder: Path, threads: int) -> Run:
    command = [sys.executable, "-m", "monocal", "apply", str(model), str(table)]
    command += ["--out", str(folder / "scored.parquet"), "--n-threads", str(threads), "--json"]
    answer = folder / "answer.json"
    with answer.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, env={**os.environ, "OMP_NUM_THREADS": "1"})
    peak = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, _peak_bytes(process.pid))
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    found = json.loads(answer.read_text())
    return Run(found["n_rows"], found["seconds"], usage.ru_utime + usage.ru_stime, peak)


_THREAD_TIMES = """
import json, sys, time
import monocal
from monocal.models.apply import apply_model
model = monocal.load(sys.argv[1])
apply_model(model, sys.argv[2], sys.argv[4], n_threads=int(sys.argv[5]))
own, all_threads = time.thread_time(), time.process_time()
done = apply_model(model, sys.argv[3], sys.argv[4], n_threads=int(sys.argv[5]))
times = time.thread_time() - own, time.process_time() - all_threads
print(json.dumps([seconds / done.n_rows for seconds in times]))
"""


def _thread_times(model: Path, few: Path, table: Path, folder: Path, threads: int) -> tuple[float, float]:
    """CPU seconds per row of the thread that reads and writes, and of all threads together."""
    command = [sys.executable, "-c", _THREAD_TIMES, str(model), str(few), str(table), str(folder / "scored.parquet")]
    done = subprocess.run(
        [*command, str(threads)], check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    own, together = json.loads(done.stdout)
    return own, together


def _peak_bytes(pid: int) -> int:
    """The process's own peak: what wait4 reports starts from its parent's, which is this large one."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 0 if found is None else int(found[1]) * 1024


def _line(method: str, start: Run, small: Run, whole: Run, times: tuple[float, float]) -> str:
    per_cpu_second = (whole.n_rows - start.n_rows) / (whole.cpu_seconds - start.cpu_seconds)
    own, together = times
    # two cores are done when their work is, and no sooner than the one thread that reads and writes
    idle = 1.0 / max(own, together / 2.0)
    return (
        f"| {method} | {whole.n_rows / whole.wall_seconds:,.0f} | {per_cpu_second:,.0f} | {1e6 * own:.2f} "
        f"| {1e6 * together:.2f} | **{idle:,.0f}** | {small.peak_bytes / 2**20:,.0f} MiB "
        f"| {whole.peak_bytes / 2**20:,.0f} MiB |"
    )


def _page(arguments: argparse.Namespace, lines: list[str]) -> str:
    n = arguments.rows
    return "\n".join(
        [
            "# Speed of `monocal apply`",
            "",
            f"`python benchmarks/speed/apply_speed.py --rows {n} --threads {arguments.threads}`",
            "",
            f"{n:,} rows of the simulated world `large`: {len(_FIELDS)} text fields of up to a million values, Parquet "
            f"in, Parquet out with all {len(_FIELDS) + 4} columns and the new one. {platform.machine()}, "
            f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end.",
            "",
            "On a shared machine wall time measures the neighbours, so the last figure of speed is worked out from CPU "
            "time: one thread reads and writes, the others score, and two cores with nothing else to do are as fast as "
            "the slower of that one thread and half of all work.",
            "",
            "| method | rows/s (wall, shared machine) | rows per CPU second | CPU µs per row, read and write "
            f"| CPU µs per row, all threads | rows/s on two idle cores, worked out | peak memory, {n // 4:,} rows "
            f"| peak memory, {n:,} rows |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *lines,
            "",
            "Asked for: 150,000 rows/s with umc on two cores, in memory that does not grow with the rows.",
            "",
        ]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--methods", default="none,wide_logistic,umc")
    return parser.parse_args()


if __name__ == "__main__":
    main()
