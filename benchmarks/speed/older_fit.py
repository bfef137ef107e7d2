"""CPU seconds of a default fit of umc, with this tree and with an older one, in turn on the same rows.

git worktree add runs/older 6cc50da                                    # the code of version 0.1.0
python benchmarks/speed/older_fit.py runs/older/src                    # 200,000 × 6 and 1,000,000 × 9, some minutes
python benchmarks/speed/older_fit.py runs/older/src --sizes 200000x6 --turns 5
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from monocal.core.files import atomic_file
from monocal.lab.simulator import find_world, simulate_log

RESULTS = Path(__file__).resolve().parents[1] / "results" / "older_fit.md"
MOST_VALUES = 100_000
HERE = Path(__file__).resolve().parents[2] / "src"
TASK = """
import sys, time
import numpy as np
from monocal.calibrators import calibrator

rows = np.load(sys.argv[1])
arrays = [rows[name] for name in ("logits", "labels", "features", "times")]

def fit(n):
    logits, labels, features, times = (array[:n] for array in arrays)
    started = time.process_time()
    fitted = calibrator("umc", n_threads=1, show_progress=False)
    fitted.fit(logits, labels, features=features, times=times, scores_are="logit")
    return time.process_time() - started

fit(20_000)  # loops are compiled here
print(fit(None))
"""


def main() -> None:
    """Fits in a new process each time, the trees in turn, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("older", type=Path, help="the folder src of the older tree")
    parser.add_argument("--sizes", nargs="+", default=["200000x6", "1000000x9"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    lines = [
        "# What carry-over costs: a default fit beside that of version 0.1.0",
        "",
        f"`python benchmarks/speed/older_fit.py runs/older/src --sizes {' '.join(given.sizes)} --turns {given.turns}`",
        "",
        "`umc` with its defaults on simulated rows (six fields: the world `default`, more: the first fields of "
        f"`large` with at most {MOST_VALUES:,} values), one thread, a new process for every fit, both trees in turn; "
        f"CPU seconds of {given.turns} fits, after a first fit of 20,000 rows in which loops are compiled. "
        f"{platform.machine()}, {os.cpu_count()} cores, load average {load:.1f} at the start.",
        "",
        "| rows × fields | 0.1.0 | now | now / 0.1.0, medians |",
        "| --- | --- | --- | --- |",
    ]
    for size in given.sizes:
        n_rows, n_fields = (int(part) for part in size.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            rows = _rows(Path(folder) / "rows.npz", n_rows, n_fields)
            turns = [[_seconds(tree, rows) for tree in (given.older, HERE)] for _ in range(given.turns)]
        older, now = zip(*turns, strict=True)
        texts = [", ".join(f"{seconds:.1f}" for seconds in found) for found in (older, now)]
        lines.append(f"| {n_rows:,} × {n_fields} | {' | '.join(texts)} | {np.median(now) / np.median(older):.2f} |")
        print(lines[-1], flush=True)
    with atomic_file(given.out) as temporary:
        temporary.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _rows(path: Path, n_rows: int, n_fields: int) -> Path:
    log = simulate_log(n_rows, world=find_world("default" if n_fields <= 6 else "large"))
    chosen = np.flatnonzero(np.array(log.field_sizes) <= MOST_VALUES + 1)[:n_fields]
    features = np.ascontiguousarray(log.features[:, chosen])
    np.savez(path, logits=log.logits, labels=log.labels, features=features, times=log.times)
    return path


def _seconds(tree: Path, rows: Path) -> float:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, "1") | {"PYTHONPATH": str(tree.resolve())}
    command = [sys.executable, "-c", TASK, str(rows)]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(ended.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
