"""How often the true probability of a simulated row lies inside its interval, by decile of probability and by rarity.

python benchmarks/quality/row_intervals.py [--rows 75000] [--methods wide_logistic,umc] [--seeds 6,7,8]
"""

from __future__ import annotations

import argparse
import os

import numpy as np

import monocal
from monocal.lab.simulator import WORLDS, simulate_log

LEVEL = 0.9
ARGUMENTS = {"wide_logistic": {"l2": "auto", "carry": "auto"}}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=75_000)
    parser.add_argument("--methods", default="wide_logistic,umc")
    parser.add_argument("--worlds", default="default,conditional,drifting,field_slope,multitask")
    parser.add_argument("--seeds", default="6,7,8")
    given = parser.parse_args()
    print(
        f"Coverage of the {LEVEL:.0%} interval against the simulator's truth: {given.rows:,} rows, the older 80 % "
        f"fitted, the newer 20 % looked at; every seed draws another world. Load of the machine at the start: "
        f"{os.getloadavg()[0]:.1f}.\n"
    )
    tenths = " | ".join(f"d{k}" for k in range(1, 11))
    print(f"| world | seed | method | all | 50 % | {tenths} | rare | medium | frequent | half width |")
    print("| --- " * 19 + "|")
    for world in given.worlds.split(","):
        for seed in map(int, given.seeds.split(",")):
            for method in given.methods.split(","):
                print(_row(world, seed, method, given.rows), flush=True)


def _row(world: str, seed: int, method: str, n_rows: int) -> str:
    drawn = WORLDS[world].with_seed(WORLDS[world].seed + 100 * seed)
    log = simulate_log(n_rows, seed=seed, world=drawn)
    cut = n_rows * 4 // 5
    older, newer = log.take(slice(0, cut)), log.take(slice(cut, None))
    model = monocal.fit(
        older.table(),
        method=monocal.calibrator(method, **ARGUMENTS.get(method, {})),
        score="pctr",
        label="click",
        fields=list(log.field_names),
        time="timestamp",
    )
    table = newer.table()
    half, found = (model.predict(table, interval=level) for level in (0.5, LEVEL))
    inside, in_half = (
        (interval.lower <= newer.true_probabilities) & (newer.true_probabilities <= interval.upper)
        for interval in (found, half)
    )
    tenth = _parts(found.probabilities, 10)
    # the rarest of a row's values says how rare the row is
    counts = [np.bincount(older.features[:, k], minlength=size) for k, size in enumerate(log.field_sizes)]
    rarity = np.min([counts[k][newer.features[:, k]] for k in range(len(counts))], axis=0)
    third = np.where(rarity < 10, 0, np.where(rarity < 100, 1, 2))
    width = np.median(0.5 * (found.upper - found.lower) / found.probabilities)
    numbers = [inside.mean(), in_half.mean(), *(inside[tenth == k].mean() for k in range(10))]
    numbers += [inside[third == k].mean() if (third == k).any() else np.nan for k in range(3)]
    shown = " | ".join(f"{number:.2f}".lstrip("0") for number in numbers)
    return f"| {world} | {seed} | {method} | {shown} | ±{width:.0%} |"


def _parts(column: np.ndarray, n: int) -> np.ndarray:
    return np.searchsorted(np.quantile(column, np.linspace(0.0, 1.0, n + 1)[1:-1]), column)


if __name__ == "__main__":
    main()
