"""Which level a fit should have believed: UMC on the promotions log with the levels of its newest weeks.

The default is fitted once. Its own level is taken away, and the shifts that make the totals of the newest one, two and
four calibration weeks right are tried in its place, beside the constant that would have been best.

    python benchmarks/quality/promotions_level.py runs "promotions, 4,000,000 rows"
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from promotions import right_shift

from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, logit, sigmoid
from monocal.lab.sources.complete_journey import installed_folder
from monocal.lab.studies.cells import fit
from monocal.lab.studies.data_preparation import prepare
from monocal.lab.studies.study import load_study

NEWEST_WEEKS = (1, 2, 4)


def main() -> None:
    (spec,) = load_study("promotions").only(data=[sys.argv[2]]).data
    data = prepare(spec, Path(sys.argv[1]), installed_folder())
    rows, test = data.calibration(), data.test()
    labels = np.asarray(data.truth().labels)
    fitted = fit("umc", {}, rows, 0)
    own = float(fitted.recent_shift_)  # type: ignore[attr-defined]
    older: Floats = logit(fitted.predict(rows.logits, features=rows.features)) - own
    later: Floats = logit(fitted.predict(test.logits, features=test.features)) - own
    times = np.asarray(rows.times)
    weeks = np.unique(times)
    shifts = {"none": 0.0, "UMC's own": own}
    for n in NEWEST_WEEKS:
        newest = times >= weeks[-min(n, len(weeks))]
        shifts[f"newest {n} weeks"] = right_shift(older[newest], np.asarray(rows.labels)[newest])
    shifts["best constant"] = right_shift(later, labels)
    print("| level | shift | log-loss | PCOC |\n| --- | --- | --- | --- |")
    for name, shift in shifts.items():
        moved = later + shift
        loss, pcoc = log_losses(moved, labels).mean(), sigmoid(moved).sum() / labels.sum()
        print(f"| {name} | {shift:+.4f} | {loss:.6f} | {pcoc:.3f} |", flush=True)
    by_week = {int(week): right_shift(older[times == week], np.asarray(rows.labels)[times == week]) for week in weeks}
    print("\nShift by calibration week:", ", ".join(f"{week}: {shift:+.3f}" for week, shift in by_week.items()))


if __name__ == "__main__":
    main()
