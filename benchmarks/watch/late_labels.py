"""PCOC of fits on labels that come late: as they are seen, and with the maturity of their rows.

`python benchmarks/watch/late_labels.py` prints the tables.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import monocal
from monocal.evaluation.table import evaluate_table
from monocal.lab.simulator import Compose, Drift, World, delay_labels, find_world, simulate_log

N_ROWS = 40_000
WINDOW_DAYS, PERIOD_DAYS = 7.0, 10.0
LATE = {"event_time": "timestamp", "label_time": "label_time", "window": str(int(WINDOW_DAYS * 86_400))}
FIELDS = ["ad_id", "device"]
METHODS = {"platt": ([], 8), "wide_logistic": (FIELDS, 8), "umc": (FIELDS, 4)}
"""Fields and number of logs."""


def still(world: World) -> World:
    """Returns the world without anything that moves in time."""
    parts = world.distortion.parts if isinstance(world.distortion, Compose) else (world.distortion,)
    kept = tuple(part for part in parts if not isinstance(part, Drift))
    fields = tuple(replace(field, drift=0.0) for field in world.fields)
    return replace(world, fields=fields, distortion=Compose(*kept), trend=0.0)


def main() -> None:
    print("| world | method | labels | PCOC, mean | smallest to largest | inside its interval | newest two days |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, world in (("still", still(find_world("default"))), ("default, drifts", find_world("default"))):
        # delays are drawn by another seed than labels
        logs = [delay_labels(simulate_log(N_ROWS, world=world, seed=s).table(), seed=1_000 + s) for s in range(8)]
        for method, (fields, n_logs) in METHODS.items():
            for labels, given in (("as seen", {"time": "timestamp"}), ("with maturity", LATE)):
                values, inside, newest = [], 0, []
                for log in logs[:n_logs]:
                    model = monocal.fit(log, method=method, score="pctr", label="click", fields=fields, **given)
                    found = evaluate_table(log, model=model, label="final_click", metrics=["pcoc"])
                    after = found.tasks["click"]
                    low, high = after.interval("pcoc")
                    values.append(after.value("pcoc"))
                    inside += low <= 1.0 <= high
                    young = log["timestamp"].to_numpy() > (PERIOD_DAYS - 2.0) * 86_400.0
                    final = log["final_click"].to_numpy()
                    newest.append(model.predict(log)[young].sum() / final[young].sum())
                row = f"{np.mean(values):.3f} | {min(values):.3f} to {max(values):.3f} | {inside} of {n_logs}"
                print(f"| {name} | {method} | {labels} | {row} | {np.mean(newest):.3f} |", flush=True)


if __name__ == "__main__":
    main()
