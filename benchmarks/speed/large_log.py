"""A large simulated log from text to a ranker's scores, through the command line, with what each step needs.

python benchmarks/speed/large_log.py                   # 20 million rows × 21 text columns, about ten minutes
python benchmarks/speed/large_log.py --rows 300000     # a quick look
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from pathlib import Path

from monocal.lab.rankers import ScoredLog
from monocal.lab.simulator import find_world


def main() -> None:
    """Runs three verbs, each in a process of its own, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/large_log"))
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("prepared", "ranked"):
        shutil.rmtree(folder / name, ignore_errors=True)
    log = folder / f"log_{arguments.rows}.parquet"
    fields = ",".join(field.name for field in find_world("large").fields)
    load = os.getloadavg()[0]
    steps = {
        "simulate": ["simulate", str(log), "--rows", str(arguments.rows), "--world", "large"],
        "prepare": [
            *["prepare", str(log), "--label", "click", "--fields", fields, "--time", "timestamp"],
            *["--out", str(folder / "prepared")],
        ],
        "rank": ["rank", str(folder / "prepared"), "--ranker", "deepfm", "--out", str(folder / "ranked")],
    }
    measured = {name: _measure(command) for name, command in steps.items() if name != "simulate" or not log.exists()}
    lines = _report(arguments.rows, log, measured, ScoredLog.open(folder / "ranked"), load)
    print("\n".join(lines))


def _measure(command: list[str]) -> tuple[float, float, float]:
    """Returns wall seconds, CPU seconds and peak resident MiB of one verb."""
    started = time.perf_counter()
    process = os.spawnv(
        os.P_NOWAIT, sys.executable, [sys.executable, "-c", "from monocal.cli.main import run; run()", *command]
    )
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(f"monocal {command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _report(rows: int, log: Path, measured: dict, scored: ScoredLog, load: float) -> list[str]:
    parts = ", ".join(f"{name} {part.n_rows:,}" for name, part in scored.log.parts.items())
    table = [
        f"| {name} | {wall:,.0f} | {cpu:,.0f} | {rss:,.0f} | {rows / wall / 1000:,.0f} k |"
        for name, (wall, cpu, rss) in measured.items()
    ]
    return [
        "# A large log from text to scores",
        "",
        f"`python benchmarks/speed/large_log.py --rows {rows}`",
        "",
        f"{rows:,} simulated rows of {len(scored.log.field_names)} text fields, Parquet file of "
        f"{log.stat().st_size / 2**20:,.0f} MiB; {sum(scored.log.field_sizes):,} values kept; {parts}. DeepFM "
        f"(512×256×128, vectors of 16) trains on the first part for one epoch and scores all rows. "
        f"{platform.machine()}, {os.cpu_count()} cores; load average {load:.1f} at the start.",
        "",
        "| verb | wall s | CPU s | peak RSS MiB | rows/s (wall) |",
        "| --- | --- | --- | --- | --- |",
        *table,
        "",
        f"The ids alone are {4 * rows * len(scored.log.field_names) / 2**20:,.0f} MiB on disk, mapped into memory and "
        "counted in peak RSS as far as the system kept their pages.",
        "",
    ]


if __name__ == "__main__":
    main()
