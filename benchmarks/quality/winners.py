"""Predicted over true clicks of what a model itself puts on top, before and after learning from past winners.

Three stretches of a simulated log. A first model, fitted on the first, chooses k winners of every twenty candidates in
the second; the model at hand is fitted on both with the column of winners, and chooses k of twenty by itself in the
third, where the simulator knows the truth. Beside it stands what `monocal evaluate --top-k` says,
which has only labels.

python benchmarks/quality/winners.py [--rows 60000] [--worlds default,conditional] [--seeds 0,1,2] [--tops 1]
    [--arms wide_logistic:auto,wide_logistic:1,wide_logistic:0.1]
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any

import numpy as np
import pyarrow as pa

import monocal
from monocal.judging.selection import ranks_within, selection
from monocal.lab.simulator import WORLDS, simulate_log

CANDIDATES = 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--worlds", default="default,conditional")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--tops", default="1")
    parser.add_argument("--arms", default="wide_logistic:auto,wide_logistic:1,wide_logistic:0.1")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{given.rows:,} rows in three equal parts, k winners of {CANDIDATES}; load {os.getloadavg()[0]:.1f}.\n")
    print("| world | seed | arm | k | γ ± error | PCOC of all | of the top | by its labels | of the top, selected |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for world in given.worlds.split(","):
        for arm in given.arms.split(","):
            method, _, l2 = arm.partition(":")
            arguments = {"l2": l2 if l2 == "auto" else float(l2)} if l2 else {}
            for seed in map(int, given.seeds.split(",")):
                for k in map(int, given.tops.split(",")):
                    shown = run(world, seed, given.rows, k, method=method, **arguments)
                    print(f"| {world} | {seed} | {arm.replace(':', ', l2=')} | {k} | {shown} |", flush=True)


def run(world: str, seed: int, n_rows: int, k: int, **arguments: Any) -> str:
    """Returns γ, PCOC against the truth of all rows and of the top, that of the top by its labels, and as winners."""
    drawn = WORLDS[world].with_seed(WORLDS[world].seed + 100 * seed)
    log = simulate_log(n_rows, seed=seed, world=drawn)
    fit: dict[str, Any] = {"score": "pctr", "label": "click", "time": "timestamp"}
    fit |= {"fields": list(log.field_names), **arguments}
    parts = [log.take(slice(at * n_rows // 3, (at + 1) * n_rows // 3)) for at in range(3)]
    random = np.random.default_rng(seed)
    first = monocal.fit(parts[0].table(), **fit)
    chosen = ranks_within(first.predict(parts[1].table()), random.permutation(parts[1].n_rows) // CANDIDATES) <= k
    won = np.concatenate([np.zeros(parts[0].n_rows, dtype=bool), chosen])
    both = log.take(slice(0, parts[0].n_rows + parts[1].n_rows)).table().append_column("won", pa.array(won))
    model = monocal.fit(both, selected="won", **fit)
    learned = model.info["winners"]["tasks"]["click"]
    fresh, truth = parts[2].table(), parts[2].true_probabilities
    plain, corrected = model.predict(fresh), model.predict(fresh, selected=True)
    auctions = random.permutation(plain.size) // CANDIDATES
    top = ranks_within(plain, auctions) <= k
    judged = selection(parts[2].labels, plain, top, groups=auctions)
    everywhere, there, then = (
        plain.mean() / truth.mean(),
        plain[top].mean() / truth[top].mean(),
        corrected[top].mean() / truth[top].mean(),
    )
    by_labels = f"{judged.selected_pcoc:.3f} ({judged.selected_interval.low:.2f}–{judged.selected_interval.high:.2f})"
    gamma = f"{learned['per_variance']:.2f} ± {learned['error']:.2f}"
    return f"{gamma} | {everywhere:.3f} | {there:.3f} | {by_labels} | {then:.3f}"


if __name__ == "__main__":
    main()
