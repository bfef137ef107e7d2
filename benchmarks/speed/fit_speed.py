"""How long a whole default fit of umc takes: a usual log on one thread, and a large one on two.

python benchmarks/speed/fit_speed.py                           # 200,000 × 6 and 8,000,000 × 21, some minutes
python benchmarks/speed/fit_speed.py --large-rows 300000       # a quick look
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from monocal.calibrators import calibrator
from monocal.core.files import atomic_file
from monocal.lab.simulator import simulate_log

RESULTS = Path(__file__).resolve().parents[1] / "results" / "fit_speed.md"
SMALL_ROWS = 200_000
ROUNDS = 3


def main() -> None:
    """Simulates both logs, fits each in processes of their own, writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large-rows", type=int, default=8_000_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/fit_speed"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--fit", nargs=3, metavar=("DATA", "THREADS", "EPOCHS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        print(json.dumps(_fit(Path(arguments.fit[0]), int(arguments.fit[1]), int(arguments.fit[2]))))
        return
    load = os.getloadavg()[0]
    small = _data(arguments.folder / f"default_{SMALL_ROWS}", "default", SMALL_ROWS)
    part = _data(arguments.folder / f"large_{arguments.large_rows // 4}", "large", arguments.large_rows // 4)
    large = _data(arguments.folder / f"large_{arguments.large_rows}", "large", arguments.large_rows)
    plans = [(small, 1, 2), (part, 2, 1), (large, 2, 1), (large, 2, 2)]
    found = [_in_a_process(*plan) for plan in plans]
    lines = _report(plans, found, arguments.large_rows, load)
    print("\n".join(lines))
    with atomic_file(arguments.out) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")


def _data(folder: Path, world: str, rows: int) -> Path:
    if not (folder / "labels.npy").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        log = simulate_log(rows, seed=0, world=world)
        np.save(folder / "features.npy", log.features)
        np.save(folder / "logits.npy", log.logits)
        np.save(folder / "labels.npy", log.labels.astype(np.int8))
    return folder


def _in_a_process(folder: Path, n_threads: int, n_epochs: int) -> dict:
    environment = os.environ | dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), str(n_threads)
    )
    command = [sys.executable, __file__, "--fit", str(folder), str(n_threads), str(n_epochs)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict = json.loads(ended.stdout.splitlines()[-1])
    return found


def _fit(folder: Path, n_threads: int, n_epochs: int) -> dict:
    features, logits, labels = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("features", "logits", "labels")
    )
    # loads torch and the compiled code, which a long-lived process does once
    calibrator("umc", n_epochs=1).fit(
        logits[:100_000], labels[:100_000], features=features[:100_000], scores_are="logit"
    )
    times = []
    for _ in range(ROUNDS if len(labels) <= SMALL_ROWS else 1):
        wall, cpu = time.perf_counter(), time.process_time()
        umc = calibrator("umc", n_threads=n_threads, n_epochs=n_epochs)
        umc.fit(logits, labels, features=features, scores_are="logit")
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = min(times)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"rows": len(labels), "fields": features.shape[1], "cpu": cpu, "wall": wall, "peak": peak}


def _report(plans: list, found: list[dict], large_rows: int, load: float) -> list[str]:
    lines = [
        f"| {one['rows']:,} × {one['fields']} | {plan[1]} | {plan[2]} | {one['cpu']:.1f} | {one['wall']:.1f} | "
        f"{one['peak'] / 1024:,.0f} |"
        for plan, one in zip(plans, found, strict=True)
    ]
    epoch = found[3]["wall"] - found[2]["wall"]
    return [
        "# A whole fit of umc",
        "",
        f"`python benchmarks/speed/fit_speed.py --large-rows {large_rows}`",
        "",
        "Everything between scores with labels and a fitted default `umc`: learned penalties and the logistic start, "
        "training, the refit of the shifts, the recent intercept. Simulated worlds `default` and `large` (a million "
        f"users, 300,000 addresses, 100,000 ads). In a process that has fitted before. {platform.machine()}, "
        f"{os.cpu_count()} cores, load average {load:.1f} at the start.",
        "",
        "| rows × fields | threads | epochs | CPU s | wall s | peak RSS MiB |",
        "| --- | --- | --- | --- | --- | --- |",
        *lines,
        "",
        "Asked for: 200,000 × 6 within 5 CPU seconds on one thread; 8,000,000 × 21 within 180 s per epoch on two "
        f"cores. A further epoch of the large log takes {epoch:.0f} s here; what comes before and after training takes "
        f"{found[2]['wall'] - epoch:.0f} s.",
        "",
    ]


if __name__ == "__main__":
    main()
