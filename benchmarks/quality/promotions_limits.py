"""What no fit on earlier weeks of the promotions log could know: the level of later weeks, and effects that are new.

First a wide logistic regression with carry-over is fitted, its own level is taken away, and the shifts that make the
totals of the newest one, two and four calibration weeks right are tried in its place, beside the constant that would
have been best. Then every other judged row is shown to oracles, and the field errors of all, UMC's finished cell among
them, are measured on the rest: what is left after the right level of every week, and after a wide logistic regression
learned from the very weeks that judge.

    python benchmarks/quality/promotions_limits.py runs "promotions, 4,000,000 rows"
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from monocal.core.scores import Floats, log_losses, logit, sigmoid
from monocal.lab.studies.cell_runner import RunOptions, list_cells
from monocal.lab.studies.cells import fit
from monocal.lab.studies.evaluator import FieldErrors
from monocal.lab.studies.levels_table import right_shift
from monocal.lab.studies.study import load_study
from monocal.lab.studies.study_data import CalibrationRows, PreparedData

NEWEST_WEEKS = (1, 2, 4)


def levels(data: PreparedData, fitted: Any, later: Floats) -> None:
    rows, labels = data.calibration(), np.asarray(data.truth().labels)
    known, times = np.asarray(rows.labels), np.asarray(rows.times)
    older: Floats = logit(fitted.predict(rows.logits, features=rows.features)) - fitted.recent_shift_
    weeks = np.unique(times)
    shifts = {"none": 0.0, "the fit's own": float(fitted.recent_shift_)}
    for n in NEWEST_WEEKS:
        newest = times >= weeks[-min(n, len(weeks))]
        shifts[f"newest {n} weeks"] = right_shift(older[newest], known[newest])
    shifts["best constant"] = right_shift(later, labels)
    print("| level | shift | log-loss | PCOC |\n| --- | --- | --- | --- |")
    for name, shift in shifts.items():
        moved = later + shift
        loss, pcoc = log_losses(moved, labels).mean(), sigmoid(moved).sum() / labels.sum()
        print(f"| {name} | {shift:+.4f} | {loss:.6f} | {pcoc:.3f} |", flush=True)
    by_week = {int(week): right_shift(older[times == week], known[times == week]) for week in weeks}
    print("\nShift by calibration week:", ", ".join(f"{week}: {shift:+.3f}" for week, shift in by_week.items()), "\n")


def fields(data: PreparedData, umc: Floats) -> None:
    rows, test, truth = data.calibration(), data.test(), data.truth()
    labels, features, logits = np.asarray(truth.labels), np.asarray(test.features), np.asarray(test.logits)
    week = np.unique(np.asarray(truth.times), return_inverse=True)[1]
    shown, judged = slice(0, None, 2), slice(1, None, 2)
    seen, known = week[shown], labels[shown]
    shifts = np.array([right_shift(umc[shown][seen == k], known[seen == k]) for k in range(seen.max() + 1)])
    oracle = CalibrationRows(logits[shown], labels[shown], features[shown], np.asarray(truth.times)[shown], None)
    learned = fit("wide_logistic", {"l2": "auto"}, oracle, 0)
    answers = {
        "isotonic": fit("isotonic", {}, rows, 0).predict(logits[judged]),
        "UMC": sigmoid(umc[judged]),
        "UMC, every week's right level": sigmoid(umc[judged] + shifts[week[judged]]),
        "wide logistic of the judging weeks": learned.predict(logits[judged], features=features[judged]),
    }
    errors = FieldErrors(labels[judged].astype(np.float64), features[judged])
    headings = ["half of the judged rows", "log-loss", "MFRCE", "beyond its floor", *data.field_names]
    print(f"| {' | '.join(headings)} |\n|{' --- |' * len(headings)}")
    for name, p in answers.items():
        found, floor = errors.of(p), errors.floor(p)
        values = [f"{float(log_losses(logit(p), labels[judged]).mean()):.6f}", f"{found.mean():.4f}"]
        values += [f"{(found - floor).mean():.4f}", *(f"{excess:.3f}" for excess in found - floor)]
        print(f"| {' | '.join([name, *values])} |", flush=True)


def main() -> None:
    study = load_study("promotions").only(data=[sys.argv[2]], calibrators=["UMC, monocal default"])
    (cell, *_), _ = list_cells(study, Path(sys.argv[1]), RunOptions())
    data = PreparedData(cell.data_folder)
    test = data.test()
    fitted: Any = fit("wide_logistic", {"l2": "auto", "carry": "auto", "recent_share": 0.2}, data.calibration(), 0)
    levels(data, fitted, logit(fitted.predict(test.logits, features=test.features)) - fitted.recent_shift_)
    fields(data, logit(cell.answers()))


if __name__ == "__main__":
    main()
