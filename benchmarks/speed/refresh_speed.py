"""CPU seconds of a refresh beside those of a fit on the same number of rows, one thread.

python benchmarks/speed/refresh_speed.py --rows 400000 > table.md
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from monocal.calibrators import calibrator
from monocal.core.scores import sigmoid

SIZES = (20_000, 5_000, 2_000, 500, 200, 50, 20, 10, 5)
QUIET = {"n_threads": 1, "show_progress": False}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "isotonic": ("isotonic", {}),
    "platt": ("platt", {}),
    "wide_logistic": ("wide_logistic", {"l2": "auto", "carry": "auto"}),
    "umc": ("umc", QUIET),
    "umc, network believed": ("umc", {"carry": "none", **QUIET}),
}


def rows_of_days(n_rows: int, n_days: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    random = np.random.default_rng(seed)
    shifts = [random.normal(0.0, 0.3, size + 1) for size in SIZES]
    days = []
    for _ in range(n_days):
        z = random.normal(-2.5, 1.0, n_rows)
        # squared uniform numbers: a few values have most of the rows
        ids = np.column_stack([1 + (size * random.random(n_rows) ** 2).astype(np.int32) for size in SIZES])
        truth = z + sum(table[np.minimum(ids[:, f], table.size - 1)] for f, table in enumerate(shifts))
        days.append((z, (random.random(n_rows) < sigmoid(truth)).astype(np.float64), ids))
    return days


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    given = parser.parse_args()
    days = rows_of_days(given.rows, 3)
    print(f"| method, {given.rows:,} rows × {len(SIZES)} fields | fit, CPU s | refresh, CPU s | share |")
    print("| --- | --- | --- | --- |")
    for name in given.methods:
        method, options = METHODS[name]
        spent = []
        model = calibrator(method, **options)
        for number, (z, y, ids) in enumerate(days):
            start = time.process_time()
            if number == 0:
                model.fit(z, y, features=ids, scores_are="logit")
            else:
                model = model.refresh(z, y, features=ids)
            spent.append(time.process_time() - start)
        # the first refresh compiles and builds what the next ones find
        print(f"| {name} | {spent[0]:.1f} | {spent[2]:.1f} | {spent[2] / spent[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
