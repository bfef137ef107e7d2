"""What carry-over gains and costs: log-loss on later rows beside isotonic, wide logistic, and a UMC that believes all.

Everything runs in one process and one thread, so it is quick beside `monocal bench persistence`, which has more seeds.

    python benchmarks/quality/persistence.py --logs runs/ranked/* > table.md
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from monocal.calibrators import calibrator
from monocal.core.log_loss import log_losses
from monocal.core.samples import Samples
from monocal.core.spaces import logit
from monocal.lab.simulator import find_world, simulate_log
from monocal.logs.log_folders import open_log

WORLDS = (
    *(("default", 0, n) for n in (20_000, 200_000)),
    *(("conditional", 0, n) for n in (20_000, 200_000)),
    ("calibrated", 0, 200_000),
    *(("drifting", 0, n) for n in (20_000, 200_000)),
    ("drifting", 1, 200_000),
)
N_TEST = 200_000
QUIET = {"n_threads": 1, "show_progress": False}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "isotonic": ("isotonic", {}),
    "wide, learned penalties": ("wide_logistic", {"l2": "auto"}),
    "wide, carry-over": ("wide_logistic", {"l2": "auto", "carry": "auto", "recent_share": 0.2}),
    "umc, all believed": ("umc", {"carry": "none", **QUIET}),
    "umc": ("umc", QUIET),
}
N_BLOCKS = 200


def worlds() -> Iterator[tuple[str, Samples, Samples]]:
    for world, seed, n in WORLDS:
        log = simulate_log(n + N_TEST, world=find_world(world).with_seed(find_world(world).seed + seed))
        rows = Samples.of(log.scores, log.labels, features=log.features, times=log.times)
        draw = ", second draw" if seed else ""
        yield f"{world} world{draw}, {n:,} rows", rows.take(slice(0, n)), rows.take(slice(n, None))


def logs(folders: list[Path]) -> Iterator[tuple[str, Samples, Samples]]:
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
                        scores_are=log.schema.scores_are,
                    )
                )
            yield f"{task}, {parts[0].n_rows:,} rows", parts[0], parts[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=Path, nargs="*", default=[])
    parser.add_argument("--only-logs", action="store_true")
    given = parser.parse_args()
    out = sys.stdout.write
    out(f"| data | {' | '.join(METHODS)} | umc − best other | CPU s, umc all believed → umc | network | fields |\n")
    out("|" + " --- |" * (len(METHODS) + 5) + "\n")
    sources = [logs(given.logs)] if given.only_logs else [worlds(), logs(given.logs)]
    for source in sources:
        for name, older, later in source:
            losses, seconds, umc = {}, {}, None
            for label, (method, arguments) in METHODS.items():
                began = time.process_time()
                umc = calibrator(method, **arguments)
                umc.fit(
                    older.logits, older.known_labels, features=older.features, times=older.times, scores_are="logit"
                )
                seconds[label] = time.process_time() - began
                answers = logit(umc.predict(later.logits, features=later.features))
                losses[label] = log_losses(answers, later.known_labels)
            means = {label: float(np.mean(one)) for label, one in losses.items()}
            best = min((label for label in means if label != "umc" and "carry" not in label), key=means.__getitem__)
            blocks = [part.mean() for part in np.array_split(losses["umc"] - losses[best], N_BLOCKS)]
            half = 1.96 * np.std(blocks, ddof=1) / np.sqrt(N_BLOCKS)
            shares = " ".join(f"{share:.2f}" for share in umc.carry_["share"])
            out(
                f"| {name} | {' | '.join(f'{one:.5f}' for one in means.values())} "
                f"| {means['umc'] - means[best]:+.5f} ± {half:.5f} ({best}) "
                f"| {seconds['umc, all believed']:.1f} → {seconds['umc']:.1f} "
                f"| {umc.carry_['network'][0]:.2f} | {shares} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
