"""CPU seconds of `monocal demo`, with this tree and with an older one, in turn.

git worktree add runs/older 6cc50da                                            # the code of version 0.1.0
OMP_NUM_THREADS=1 python benchmarks/speed/older_demo.py runs/older/src         # some minutes
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from monocal.core.files import atomic_file

RESULTS = Path(__file__).resolve().parents[1] / "results" / "demo.md"
HERE = Path(__file__).resolve().parents[2] / "src"
MARK = "<!-- reading -->"
"""What stands below it is written by hand and kept."""


def main() -> None:
    """Runs the demo in a new process and a new folder each time, the trees in turn, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("older", type=Path, help="the folder src of the older tree")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    runs = {"0.1.0": given.older.resolve(), "now": HERE}
    for source in runs.values():
        seconds_of(source, "--rows", "20000")  # loops are compiled here
    loads, found = [os.getloadavg()[0]], {name: [] for name in runs}
    for _ in range(given.turns):
        for name, source in runs.items():
            found[name].append(seconds_of(source))
            print(name, found[name][-1], flush=True)
            loads.append(os.getloadavg()[0])
    older = np.median([cpu for cpu, _ in found["0.1.0"]])
    lines = [
        "# What the first run costs, beside that of version 0.1.0",
        "",
        f"`OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')} python benchmarks/speed/older_demo.py "
        f"runs/older/src --turns {given.turns}` (`git worktree add runs/older 6cc50da`: the tree of version 0.1.0)",
        "",
        "`monocal demo` in a new process and a new folder each time, in turn; CPU seconds (user and system) and wall "
        f"seconds of every run, start of the process included. {platform.machine()}, {os.cpu_count()} cores, load "
        f"average {min(loads):.0f} to {max(loads):.0f}: wall seconds say more of the neighbours than of the code.",
        "",
        "| | CPU s | median | to 0.1.0 | wall s |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, seconds in found.items():
        median = np.median([cpu for cpu, _ in seconds])
        cpus, walls = (", ".join(f"{pair[side]:.1f}" for pair in seconds) for side in (0, 1))
        lines.append(f"| {name} | {cpus} | {median:.1f} | {median / older:.2f} | {walls} |")
    kept = given.out.read_text(encoding="utf-8").partition(MARK)[2] if given.out.exists() else "\n"
    with atomic_file(given.out) as temporary:
        temporary.write_text("\n".join([*lines, "", MARK]) + kept, encoding="utf-8")


def seconds_of(source: Path, *options: str) -> tuple[float, float]:
    """Returns the CPU and wall seconds of one run."""
    with tempfile.TemporaryDirectory() as folder:
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "monocal", "demo", "--out", f"{folder}/demo", *options],
            env={**os.environ, "PYTHONPATH": str(source)},
            check=True,
            capture_output=True,
        )
        after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended - started


if __name__ == "__main__":
    main()
