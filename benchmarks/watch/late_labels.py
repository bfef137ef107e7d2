"""PCOC of fits on labels that come late: as they are seen, and with the maturity of their rows.

`python benchmarks/watch/late_labels.py > benchmarks/results/late_labels.md` writes the table again.
"""

from __future__ import annotations

import monocal
from monocal.judging.evaluate_table import evaluate_table
from monocal.lab.simulator import delay_labels, simulate_log

N_ROWS, SEED = 40_000, 0
LATE = {"event_time": "timestamp", "label_time": "label_time", "window": str(7 * 86_400)}
FIELDS = ["ad_id", "device"]


def main() -> None:
    log = delay_labels(simulate_log(N_ROWS, seed=SEED).table(), seed=SEED)
    print("# Labels that come late\n")
    print(
        f"{N_ROWS:,} rows of the simulated world `default`, seed {SEED}, over ten days and seen at their end; labels "
        "count for seven days, and every ad has its own exponential delays. PCOC and log-loss against the labels that "
        "will have come in the end, on the rows of the fit, with 95 % intervals of 200 bootstrap replicates. Written "
        "by `python benchmarks/watch/late_labels.py`.\n"
    )
    print("| method | labels | PCOC | interval | log-loss |")
    print("| --- | --- | --- | --- | --- |")
    for method, fields in (("platt", []), ("isotonic", []), ("wide_logistic", FIELDS), ("umc", FIELDS)):
        for name, given in (("as seen", {"time": "timestamp"}), ("with maturity", LATE)):
            model = monocal.fit(log, method=method, score="pctr", label="click", fields=fields, **given)
            found = evaluate_table(log, model=model, label="final_click", metrics=["pcoc", "log_loss"])
            after = found.tasks["click"].judgement.after
            low, high = after.interval("pcoc")
            row = f"{after.value('pcoc'):.3f} | [{low:.3f}, {high:.3f}] | {after.value('log_loss'):.5f}"
            print(f"| {method} | {name} | {row} |", flush=True)

    print("\n## Eight logs, `platt`\n")
    print("| seed | labels | PCOC | interval |")
    print("| --- | --- | --- | --- |")
    for seed in range(8):
        log = delay_labels(simulate_log(N_ROWS, seed=seed).table(), seed=seed)
        for name, given in (("as seen", {"time": "timestamp"}), ("with maturity", LATE)):
            model = monocal.fit(log, method="platt", score="pctr", label="click", **given)
            found = evaluate_table(log, model=model, label="final_click", metrics=["pcoc"])
            after = found.tasks["click"].judgement.after
            low, high = after.interval("pcoc")
            print(f"| {seed} | {name} | {after.value('pcoc'):.3f} | [{low:.3f}, {high:.3f}] |", flush=True)


if __name__ == "__main__":
    main()
