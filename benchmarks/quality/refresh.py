"""Step by step through time: every model predicts the next step, then learns it. Frozen, re-fitted, refreshed.

One process, one thread. CPU seconds count the update alone. A ranked log is cut at the values of its time column.

    python benchmarks/quality/refresh.py > table.md
    python benchmarks/quality/refresh.py --log RANKED --from 36 --first 6 --every 8 > table.md
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from monocal.calibrators import Calibrator, calibrator
from monocal.core.log_loss import log_losses
from monocal.core.samples import Samples
from monocal.core.spaces import logit
from monocal.lab.simulator import find_world, simulate_log
from monocal.logs.log_folders import open_log

QUIET = {"n_threads": 1, "show_progress": False}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "isotonic": ("isotonic", {}),
    "platt": ("platt", {}),
    "wide, carry-over": ("wide_logistic", {"l2": "auto", "carry": "auto", "recent_share": 0.2}),
    "umc": ("umc", QUIET),
}
SHORT = 2
"""Steps of the short window, on which the two methods without fields are re-fitted, too."""
N_BLOCKS = 200


def joined(steps: list[Samples]) -> Samples:
    columns = ("logits", "labels", "features", "times")
    return Samples(**{name: np.concatenate([getattr(step, name) for step in steps]) for name in columns})


def fitted(method: str, steps: list[Samples]) -> Calibrator:
    name, options = METHODS[method]
    rows = joined(steps)
    return calibrator(name, **options).fit(
        rows.logits, rows.labels, features=rows.features, times=rows.times, scores_are="logit"
    )


def walk(way: str, method: str, steps: list[Samples], first: int) -> tuple[list[list[np.ndarray]], float]:
    """Returns losses and probabilities of every step, with labels in time and one step late, and CPU per update."""
    model = fitted(method, steps[:first])
    told: list[list[np.ndarray]] = [[], []]
    cpu = 0.0
    previous = model
    for number in range(first, len(steps)):
        today = steps[number]
        for late, one in enumerate((model, previous)):
            told[late].append(one.predict(today.logits, features=today.features))
        previous = model
        start = time.process_time()
        if way == "refreshed":
            model = model.refresh(
                today.logits, today.known_labels, features=today.features, times=today.times, scores_are="logit"
            )
        elif way != "frozen":
            width = SHORT if way == "short window" else first
            model = fitted(method, steps[number + 1 - width : number + 1])
        cpu += time.process_time() - start
    return told, cpu / (len(steps) - first)


def losses(told: list[np.ndarray], steps: list[Samples]) -> np.ndarray:
    parts = [log_losses(logit(p), step.known_labels) for p, step in zip(told, steps, strict=True)]
    return np.concatenate(parts)


def paired(difference: np.ndarray) -> str:
    means = np.array([block.mean() for block in np.array_split(difference, N_BLOCKS)])
    return f"{difference.mean():+.5f} ± {1.96 * means.std(ddof=1) / N_BLOCKS**0.5:.5f}"


def report(
    name: str, steps: list[Samples], first: int, truth: list[np.ndarray] | None, skipped: list[str]
) -> Iterator[str]:
    later = steps[first:]
    n_rows = [sum(step.n_rows for step in part) for part in (steps[:first], later)]
    yield f"\n### {name}: fitted on {n_rows[0]:,} rows in {first} steps, then {n_rows[1]:,} in {len(later)} steps\n"
    yield (
        "| method | way | log-loss | minus umc refreshed | mean of PCOC − 1, absolute | labels a step late: log-loss "
        "| minus umc refreshed | mean of PCOC − 1, absolute | CPU s per step |"
    )
    yield "| --- " * 9 + "|"
    found = {}
    for method in METHODS:
        ways = ["frozen", "window", "refreshed"]
        if method in ("isotonic", "platt"):
            ways.insert(2, "short window")
        for way in ways:
            if f"{method} {way}" in skipped:
                continue
            found[method, way] = walk(way, method, steps, first)
            mean = losses(found[method, way][0][0], later).mean()
            print(name, method, way, f"{mean:.5f}", file=sys.stderr, flush=True)
    ours = [losses(found["umc", "refreshed"][0][late], later) for late in (0, 1)]
    for (method, way), (told, cpu) in found.items():
        cells = []
        for late in (0, 1):
            mine = losses(told[late], later)
            off = [abs(p.sum() / step.known_labels.sum() - 1.0) for p, step in zip(told[late], later, strict=True)]
            cells += [f"{mine.mean():.5f}", paired(mine - ours[late]), f"{np.mean(off):.3f}"]
        yield f"| {method} | {way} | {' | '.join(cells)} | {cpu:.2f} |"
    if truth is not None:
        yield f"| the truth | | {losses(truth[first:], later).mean():.5f} | | | | | | |"


def simulated(draw: int, n_steps: int, n_rows: int) -> tuple[list[Samples], list[np.ndarray]]:
    world = find_world("drifting")
    log = simulate_log(n_rows, world=world.with_seed(world.seed + draw))
    rows = Samples.of(log.scores, log.labels, features=log.features, times=log.times)
    edges = np.linspace(0, n_rows, n_steps + 1).astype(int)
    cuts = [slice(start, end) for start, end in pairwise(edges)]
    return [rows.take(cut) for cut in cuts], [log.true_probabilities[cut] for cut in cuts]


def ranked(folder: Path, since: int, every: int) -> list[Samples]:
    log = open_log(folder).as_encoded()  # type: ignore[union-attr]
    (task,) = log.scores
    kept = np.flatnonzero(np.asarray(log.times) >= since)[::every]
    times = np.asarray(log.times)[kept]
    rows = Samples.of(
        np.asarray(log.scores[task])[kept],
        np.asarray(log.labels[task])[kept],
        features=np.asarray(log.features[kept]),
        times=times,
        scores_are=log.roles.scores_are,
    )
    return [rows.take(rows.times == moment) for moment in np.unique(times)]  # type: ignore[operator]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", type=Path)
    parser.add_argument("--from", dest="since", type=int, default=0)
    parser.add_argument("--first", type=int, default=6)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--rows", type=int, default=420_000)
    parser.add_argument("--draws", type=int, nargs="*", default=[10, 11])
    parser.add_argument("--skip", nargs="*", default=[], help="a method and a way, such as 'umc window'")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.log is not None:
        steps = ranked(given.log, given.since, given.every)
        print(*report(given.log.parent.name, steps, given.first, None, given.skip), sep="\n", flush=True)
        return
    for draw in given.draws:
        steps, truth = simulated(draw, 14, given.rows)
        print(*report(f"drifting world, draw {draw}", steps, given.first, truth, given.skip), sep="\n", flush=True)


if __name__ == "__main__":
    main()
