"""What carry-over gains and costs: log-loss and field errors on later rows beside methods that believe everything.

Everything runs in one process and one thread, so it is quick beside `monocal bench persistence`. A simulated world is
drawn twice; on a real log the networks are trained from two seeds and their losses averaged. Rows of the table come out
one after the other.

    python benchmarks/quality/persistence.py --logs runs/ranked/* > table.md
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from monocal.calibrators import calibrator
from monocal.core.log_loss import log_losses
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, logit
from monocal.judging import evaluate
from monocal.lab.simulator import find_world, simulate_log
from monocal.logs.log_folders import open_log

WORLDS = ("default", "conditional", "calibrated", "drifting")
SIZES = (20_000, 200_000, 1_000_000)
DRAWS = (0, 1)
N_TEST = 200_000
N_DAY = 200_000
QUIET = {"n_threads": 1, "show_progress": False}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "isotonic": ("isotonic", {}),
    "wide, learned penalties": ("wide_logistic", {"l2": "auto"}),
    "umc, all believed": ("umc", {"carry": "none", **QUIET}),
    "wide, carry-over": ("wide_logistic", {"l2": "auto", "carry": "auto", "recent_share": 0.2}),
    "umc": ("umc", QUIET),
}
OTHERS = ("isotonic", "wide, learned penalties", "umc, all believed")
N_BLOCKS = 200
N_FLOOR = 3


@final
@dataclass(frozen=True)
class Data:
    """Rows to fit, rows to judge, and the seeds of the networks."""

    name: str
    older: Samples
    later: Samples
    seeds: tuple[int, ...]


def worlds(sizes: list[int]) -> Iterator[Data]:
    for n in sizes:
        for world in WORLDS:
            for draw in DRAWS:
                log = simulate_log(n + N_TEST, world=find_world(world).with_seed(find_world(world).seed + draw))
                rows = Samples.of(log.scores, log.labels, features=log.features, times=log.times)
                name = f"{world} world, draw {draw}, {n:,} rows"
                yield Data(name, rows.take(slice(0, n)), rows.take(slice(n, None)), (draw,))


def one_day() -> Iterator[Data]:
    """Calibration rows of one whole day, whose hours come back only afterwards."""
    for draw in DRAWS:
        world = find_world("large").with_seed(find_world("large").seed + draw)
        log = simulate_log(N_DAY * world.days, world=world)
        rows = Samples.of(log.scores, log.labels, features=log.features, times=log.times)
        day = (log.times - log.times[0]) // 86_400
        older, later = np.flatnonzero(day == 4), np.flatnonzero(day == 5)
        yield Data(f"one day, draw {draw}, {older.size:,} rows", rows.take(older), rows.take(later), (draw,))


def logs(folders: list[Path]) -> Iterator[Data]:
    for folder in folders:
        log = open_log(folder).as_encoded()  # type: ignore[union-attr]
        for task in log.scores:
            parts = []
            for name in ("calibration", "test"):
                part = log.part(name)
                parts.append(
                    Samples.of(
                        np.asarray(part.scores[task]),
                        np.asarray(part.labels[task]),
                        features=np.asarray(part.features),
                        times=np.asarray(part.times),
                        scores_are=log.roles.scores_are,
                    )
                )
            yield Data(f"{task}, {parts[0].n_rows:,} rows", parts[0], parts[1], DRAWS)


@final
@dataclass(frozen=True)
class Judged:
    """One method on one log: loss per later row, field error beyond its floor, CPU seconds, what was believed."""

    losses: Floats
    excess: float
    seconds: float
    carried: dict[str, Any]


def judge(method: str, arguments: dict[str, Any], data: Data) -> Judged:
    older, later = data.older, data.later
    assert later.features is not None
    fields = {str(place): later.features[:, place] for place in range(later.features.shape[1])}
    losses, excess, seconds, one = [], [], [], None
    for seed in data.seeds if method == "umc" else data.seeds[:1]:
        began = time.process_time()
        one = calibrator(method, **arguments, **({"seed": seed} if method == "umc" else {}))
        one.fit(older.logits, older.known_labels, features=older.features, times=older.times, scores_are="logit")
        seconds.append(time.process_time() - began)
        answers = one.predict(later.logits, features=later.features, scores_are="logit")
        losses.append(log_losses(logit(answers), later.known_labels))
        report = evaluate(later.known_labels, answers, fields=fields, metrics=["mfrce"], n_floor=N_FLOOR)
        excess.append(report.value("mfrce") - report.floor("mfrce"))
    carried = getattr(one, "carry_", {})
    return Judged(np.mean(losses, axis=0), float(np.mean(excess)), float(np.mean(seconds)), carried)


def row(data: Data) -> str:
    found = {label: judge(method, arguments, data) for label, (method, arguments) in METHODS.items()}
    means = {label: float(np.mean(one.losses)) for label, one in found.items()}
    best = min(OTHERS, key=means.__getitem__)
    blocks = [part.mean() for part in np.array_split(found["umc"].losses - found[best].losses, N_BLOCKS)]
    half = 1.96 * np.std(blocks, ddof=1) / np.sqrt(N_BLOCKS)
    carried = found["umc"].carried
    cells = [
        data.name,
        *(f"{one:.5f}" for one in means.values()),
        f"{means['umc'] - means[best]:+.5f} ± {half:.5f} ({best})",
        " ".join(f"{found[label].excess:.4f}" for label in (*OTHERS, "umc")),
        f"{found['umc, all believed'].seconds:.1f} → {found['umc'].seconds:.1f}",
        f"{carried['network'][0]:.2f}",
        " ".join(f"{share:.2f}" for share in carried["share"]),
    ]
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=Path, nargs="*", default=[])
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="calibration rows of the worlds")
    parser.add_argument("--no-day", action="store_true", help="leave out the log of one day")
    given = parser.parse_args()
    headings = [
        *("data", *METHODS, "umc − best other", f"MFRCE beyond its floor: {', '.join(OTHERS)}, umc"),
        *("CPU s, umc all believed → umc", "network", "fields"),
    ]
    sys.stdout.write(f"| {' | '.join(headings)} |\n|{' --- |' * len(headings)}\n")
    for source in (logs(given.logs), worlds(given.sizes), [] if given.no_day else one_day()):
        for data in source:
            sys.stdout.write(row(data))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
