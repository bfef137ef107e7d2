"""Log-loss on later rows when the map is trained on the newest rows: beside shifts of all rows, and on a slice alone.

python benchmarks/scale/curve_rows.py > curve_rows.jsonl
"""

from __future__ import annotations

import json
import time

import numpy as np

from monocal.calibrators import calibrator
from monocal.core.scores import log_loss, logit
from monocal.lab.simulator import simulate_log
from monocal.tables.vocabulary import Vocabulary

FIELDS = ["site_id", "ad_id", "device"]
N_ROWS, N_FIT = 360_000, 240_000
NEWEST = (120_000, 60_000, 20_000)


def main() -> None:
    """Prints a line per world, way and number of rows: loss of two seeds, and the smaller CPU time of the fit."""
    for world in (21, 22):
        log = simulate_log(N_ROWS, seed=world).table()
        scores, labels, times = (log[name].to_numpy() for name in ("pctr", "click", "timestamp"))
        features = Vocabulary.of_table(log, FIELDS).encode(log)
        later = log_loss(logit(scores[N_FIT:]), labels[N_FIT:])
        print(json.dumps({"world": world, "way": "the score itself", "log_loss": later}), flush=True)
        ways = [("all rows", 0, None), *[("curve_rows", 0, n) for n in NEWEST], *[("a slice", n, None) for n in NEWEST]]
        for way, n_slice, curve_rows in ways:
            rows = slice(N_FIT - n_slice if n_slice else 0, N_FIT)
            losses, seconds = [], []
            for seed in (0, 1):
                started = time.process_time()
                fitted = calibrator("umc", seed=seed, n_threads=1, curve_rows=curve_rows).fit(
                    scores[rows], labels[rows], features=features[rows], times=times[rows]
                )
                seconds.append(time.process_time() - started)
                answers = fitted.predict(scores[N_FIT:], features=features[N_FIT:])
                losses.append(round(log_loss(logit(answers), np.asarray(labels[N_FIT:])), 6))
            said = {"world": world, "way": way, "newest": curve_rows or n_slice, "log_loss": losses}
            print(json.dumps({**said, "cpu s": round(min(seconds), 1)}), flush=True)


if __name__ == "__main__":
    main()
