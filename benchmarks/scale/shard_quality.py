"""Held-out log-loss of umc by number of shards and seed: is another number of shards worth more than another seed?

python benchmarks/scale/shard_quality.py simulated
python benchmarks/scale/shard_quality.py TABLE --score pctr --label click --fields site_id,device --time timestamp
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from monocal.core.log_loss import log_loss
from monocal.core.spaces import logit
from monocal.lab.simulator import simulate_log
from monocal.models.fit import FitOptions, fit_log
from monocal.tables.roles import Roles
from monocal.tables.table import Table


def main(given: argparse.Namespace) -> None:
    """Prints a line per fit: the first 80 % of the rows in time are fitted, the rest is judged."""
    table = simulate_log(given.rows, seed=1).table() if given.table == "simulated" else given.table
    roles = Roles.of(score=given.score, label=given.label, fields=given.fields.split(","), time=given.time)
    rows = Table.read(table, roles).in_time_order()
    rows = rows.take(slice(0, given.rows))
    cut = int(0.8 * rows.n_rows)
    log, later = rows.take(slice(0, cut)).encoded(), rows.take(slice(cut, None))
    (task,) = rows.labels
    labels = later.labels[task].astype(np.float64)
    print(json.dumps({"shards": None, "log_loss": log_loss(later.logits(task), labels), "n": cut}), flush=True)
    for n_shards in (1, 2, 4, 8):
        for seed in range(given.seeds):
            started = time.process_time()
            model = fit_log(log, FitOptions("umc", {"seed": seed, "size": given.size}), n_shards=n_shards)
            loss = log_loss(logit(model.predict_rows(later)[task]), labels)
            cpu = round(time.process_time() - started, 1)
            print(json.dumps({"shards": n_shards, "seed": seed, "log_loss": loss, "cpu s": cpu}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("--score", default="pctr")
    parser.add_argument("--label", default="click")
    parser.add_argument("--fields", default="site_id,device,hour")
    parser.add_argument("--time", default="timestamp")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--size", default="small")
    main(parser.parse_args())
