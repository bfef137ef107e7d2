"""The wide solver with each shift scaled by its own curvature (as it was), and with the common directions scaled, too.

git show 639a61b~1:src/monocal/calibrators/statistical/wide_solver.py > OLD.py
python benchmarks/scale/wide_scaling.py OLD.py --rows 100000
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from monocal.calibrators.statistical import wide_solver

from monocal.core.log_loss import log_losses
from monocal.core.spaces import logit
from monocal.lab.simulator import simulate_log
from monocal.tables.vocabulary import Vocabulary

WORLDS = ("default", "affine", "field_bias", "field_slope", "conditional", "downsampled")
FIELDS = ["site_id", "ad_id", "country", "device", "hour"]
L2 = 10.0


def loaded(file: Path) -> ModuleType:
    """Imports a solver's file."""
    spec = importlib.util.spec_from_file_location("old_wide_solver", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counted(solver: ModuleType, rows: tuple[Any, ...], tolerance: float) -> tuple[Any, int, float]:
    """Returns what a solver finds, how often its loss was evaluated, and the CPU seconds."""
    searches = []
    minimize = solver.minimize

    def counting(*given: Any, **options: Any) -> Any:
        searches.append(minimize(*given, **options))
        return searches[-1]

    solver.minimize = counting
    try:
        started = time.process_time()
        found = solver.solve_wide(*rows, l2=L2, tolerance=tolerance, max_iterations=1000)
        spent = time.process_time() - started
    finally:
        solver.minimize = minimize
    return found, sum(search.nfev for search in searches), spent


def loss(found: Any, rows: tuple[Any, ...]) -> tuple[float, Any]:
    """Returns the loss with its penalty, and the logits."""
    z, labels, weights, features, _ = rows
    answers = wide_solver.add_shifts(found.slope * z + found.intercept, features, found.shifts, found.offsets)
    penalty = 0.5 * L2 * float(found.shifts @ found.shifts)
    return float(np.sum(weights * log_losses(answers, labels))) + penalty, answers


def main(old: Path, n_rows: int) -> None:
    """Prints a line of the table per world and scaling."""
    print("| world | scaling | evaluations | CPU s | gap in loss, relative | farthest logit |")
    print("| --- | --- | --- | --- | --- | --- |")
    solvers = {"each shift": loaded(old), "and common directions": wide_solver}
    for world in WORLDS:
        table = simulate_log(n_rows, world=world, seed=1).table()
        features = Vocabulary.of_table(table, FIELDS).encode(table)
        sizes = features.max(axis=0).astype(np.int64) + 1
        labels = table["click"].to_numpy().astype(np.float64)
        rows = logit(table["pctr"].to_numpy()), labels, np.ones(n_rows), features, sizes
        best, answers = loss(counted(wide_solver, rows, 1e-16)[0], rows)
        for name, solver in solvers.items():
            counted(solver, tuple(column[:2000] for column in rows[:4]) + rows[4:], 1e-3)  # loads what is compiled
            found, n_evaluations, spent = counted(solver, rows, 1e-9)
            reached, its = loss(found, rows)
            facts = f"{n_evaluations} | {spent:.2f} | {max(reached - best, 0.0) / best:.1e}"
            print(f"| {world} | {name} | {facts} | {np.abs(its - answers).max():.1e} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    main(given.old, given.rows)
