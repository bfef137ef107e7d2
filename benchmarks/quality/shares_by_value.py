"""What it gains to learn shares from values instead of rows: the wide logistic with carry-over on draws of one world.

python benchmarks/quality/shares_by_value.py --world drifting --rows 200000 --draws 30 31 32

Prints for every draw the log-loss under the known true probabilities, new minus old, in 10⁻⁵, and the shares of both.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from monocal.calibrators import calibrator
from monocal.calibrators.statistical.carry_over import LaterRows, believed
from monocal.core.log_loss import log_losses
from monocal.core.spaces import logit
from monocal.lab.simulator import SimulatedLog, find_world, simulate_log

N_TEST = 200_000

judged_rows = believed.judged_rows


def judged_without_values(*arguments: Any) -> LaterRows:
    """The later rows without a word about which of them share a value, as they were judged before."""
    return replace(judged_rows(*arguments), cells=None)


def fitted(log: SimulatedLog, n_rows: int) -> tuple[float, list[float]]:
    older, later = slice(0, n_rows), slice(n_rows, None)
    model = calibrator("wide_logistic", l2="auto", carry="auto", base="slope", recent_share=0.2)
    model.fit(log.scores[older], log.labels[older], features=log.features[older], times=log.times[older])
    logits = logit(model.predict(log.scores[later], features=log.features[later]))
    truth = log.true_probabilities[later]
    losses = truth * log_losses(logits, np.ones(N_TEST)) + (1.0 - truth) * log_losses(logits, np.zeros(N_TEST))
    return float(losses.mean()), model.carry_["share"].round(2).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", default="drifting")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--draws", type=int, nargs="+", default=[5, 6])
    wish = parser.parse_args()
    gains = []
    for draw in wish.draws:
        log = simulate_log(wish.rows + N_TEST, world=find_world(wish.world).with_seed(draw))
        new, by_value = fitted(log, wish.rows)
        with patch.object(believed, "judged_rows", judged_without_values):
            old, by_row = fitted(log, wish.rows)
        gains.append(1e5 * (new - old))
        print(f"draw {draw}: {old:.5f} → {new:.5f} ({gains[-1]:+.1f}); shares {by_row} → {by_value}", flush=True)
    error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
    print(f"{wish.world}, {wish.rows:,} rows, {len(gains)} draws: {np.mean(gains):+.1f} ± {error:.1f} (standard error)")


if __name__ == "__main__":
    main()
