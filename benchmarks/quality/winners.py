"""Predicted over true clicks of what a model itself puts on top, before and after learning from past winners.

Three stretches of a simulated log. A first model, fitted on the first, chooses one winner of every twenty candidates in
the second; the model at hand is fitted on both with the column of winners, and chooses by itself in the third, where
the simulator knows the truth.

python benchmarks/quality/winners.py [--rows 60000] [--worlds default,conditional] [--seeds 3]
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any

import numpy as np
import pyarrow as pa

import monocal
from monocal.judging.selection import ranks_within
from monocal.lab.simulator import WORLDS, simulate_log

CANDIDATES = 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--worlds", default="default,conditional")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{given.rows:,} rows in three equal parts, one winner of {CANDIDATES}; load {os.getloadavg()[0]:.1f}.\n")
    print("| world | seed | l2 | γ ± error | PCOC of all | of the top | of the top, selected |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for world in given.worlds.split(","):
        for l2 in ("auto", 1.0, 0.1):
            for seed in range(given.seeds):
                gamma, error, everywhere, top, corrected = run(world, seed, given.rows, l2=l2)
                shown = f"{everywhere:.3f} | {top:.3f} | {corrected:.3f}"
                print(f"| {world} | {seed} | {l2} | {gamma:.2f} ± {error:.2f} | {shown} |", flush=True)


def run(world: str, seed: int, n_rows: int, **arguments: Any) -> tuple[float, float, float, float, float]:
    """Returns γ, its error, and PCOC against the truth of all rows, of the top, and of the top as winners."""
    drawn = WORLDS[world].with_seed(WORLDS[world].seed + 100 * seed)
    log = simulate_log(n_rows, seed=seed, world=drawn)
    fit: dict[str, Any] = {"method": "wide_logistic", "score": "pctr", "label": "click", "time": "timestamp"}
    fit |= {"fields": list(log.field_names), **arguments}
    parts = [log.take(slice(k * n_rows // 3, (k + 1) * n_rows // 3)) for k in range(3)]
    random = np.random.default_rng(seed)

    def top_of(forecast: np.ndarray) -> np.ndarray:
        return ranks_within(forecast, random.permutation(forecast.size) // CANDIDATES) == 1

    first = monocal.fit(parts[0].table(), **fit)
    won = np.concatenate([np.zeros(parts[0].n_rows, dtype=bool), top_of(first.predict(parts[1].table()))])
    both = log.take(slice(0, parts[0].n_rows + parts[1].n_rows)).table().append_column("won", pa.array(won))
    model = monocal.fit(both, selected="won", **fit)
    learned = model.info["winners"]["tasks"]["click"]
    fresh, truth = parts[2].table(), parts[2].true_probabilities
    plain, chosen = model.predict(fresh), model.predict(fresh, selected=True)
    top = top_of(plain)
    ratios = (plain.mean() / truth.mean(), *(p[top].mean() / truth[top].mean() for p in (plain, chosen)))
    return float(learned["per_variance"]), float(learned["error"]), *map(float, ratios)


if __name__ == "__main__":
    main()
