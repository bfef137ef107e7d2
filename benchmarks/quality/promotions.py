"""The table of the study `promotions` from its finished cells, without resampling what need not be resampled.

Values of all metrics are those of `evaluate`, floors are means of 3 redraws. Differences in log-loss, to the best row
and to UMC's default of the same seed, have a 95 % interval over stores; `monocal bench promotions --finished-only`
gives intervals of every metric and takes much longer. The last table moves all answers of a week by one number: what
is lost by not knowing its level.

    python benchmarks/quality/promotions.py runs > table.md
    python benchmarks/quality/promotions.py runs "promotions, 1,000,000 rows" > part_of_it.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, logit, sigmoid
from monocal.judging import evaluate
from monocal.lab.sources.complete_journey import installed_folder
from monocal.lab.studies.cell_runner import RunOptions, list_cells
from monocal.lab.studies.cells import Cell
from monocal.lab.studies.evaluator import pcoc_by_time
from monocal.lab.studies.study import load_study
from monocal.lab.studies.study_data import PreparedData, Truth

DEFAULT = "UMC, monocal default"
N_DRAWS = 1000
N_FLOOR = 3


class FieldErrors:
    """MFRCE of many answers to the same rows, with everything that they share counted once.

    Equal to the metric `mfrce` of `evaluate`, which keeps sums for intervals as well and is slower for it.
    """

    def __init__(self, labels: Any, features: Any) -> None:
        self.labels = labels
        self.values = [np.ascontiguousarray(features[:, place]) for place in range(features.shape[1])]
        self.n_rows = [np.bincount(values) for values in self.values]

    def of(self, answers: Floats, labels: Any = None) -> Floats:
        """Returns the error of every field; MFRCE is their mean."""
        labels = self.labels if labels is None else labels
        errors = []
        for values, n_rows in zip(self.values, self.n_rows, strict=True):
            positive = np.bincount(values, labels)
            kept = positive > 0
            gaps = np.abs(np.bincount(values, answers)[kept] - positive[kept]) / positive[kept]
            errors.append(float(np.average(gaps, weights=n_rows[kept])))
        return np.array(errors)

    def floor(self, answers: Floats) -> Floats:
        """What perfect answers would have: labels are drawn from the answers themselves."""
        rng = np.random.default_rng(0)
        draws = [(rng.random(len(answers)) < answers).astype(np.float64) for _ in range(N_FLOOR)]
        return np.mean([self.of(answers, drawn) for drawn in draws], axis=0)


class Judged:
    """One finished cell: its metrics, PCOC by week, the sum of losses in every store, and what right levels give."""

    def __init__(self, cell: Cell, truth: Truth, errors: FieldErrors) -> None:
        labels, answers = errors.labels, cell.answers()
        self.name, self.seed, self.facts = cell.spec.name, cell.seed, cell.result()
        report = evaluate(labels, answers, metrics=["log_loss", "auc", "ece", "pcoc"])
        self.values = {name: report.value(name) for name in report.names}
        mfrce, floor = float(errors.of(answers).mean()), float(errors.floor(answers).mean())
        self.values |= {"mfrce": mfrce, "beyond": mfrce - floor}
        self.weeks = pcoc_by_time(answers, labels, np.asarray(truth.times))
        stores = np.unique(np.asarray(truth.groups), return_inverse=True)[1]
        logits = logit(answers)
        self.n_rows, self.losses = np.bincount(stores), np.bincount(stores, log_losses(logits, labels))

        week = np.unique(np.asarray(truth.times), return_inverse=True)[1]
        right = np.array([right_shift(logits[week == k], labels[week == k]) for k in range(week.max() + 1)])
        shifts = {
            "one right level": np.full(len(right), right_shift(logits, labels)),
            "the level of the week before": np.append(0.0, right[:-1]),
            "every week's right level": right,
        }
        self.moved = {"as it is": f"{self.values['log_loss']:.6f}, {self.values['beyond']:.4f}"}
        for name, shift in shifts.items():
            moved = logits + shift[week]
            beyond = float(errors.of(sigmoid(moved)).mean()) - floor
            self.moved[name] = f"{float(log_losses(moved, labels).mean()):.6f}, {beyond:.4f}"

    @property
    def title(self) -> str:
        return f"{self.name}, seed {self.seed}"

    def difference(self, other: Judged) -> str:
        """Returns this one's log-loss minus another's, and half the width of its interval over stores."""
        if other is self:
            return ""
        gaps = self.losses - other.losses
        draws = np.random.default_rng(0).integers(0, len(gaps), (N_DRAWS, len(gaps)))
        resampled = gaps[draws].sum(axis=1) / self.n_rows[draws].sum(axis=1)
        return f"{gaps.sum() / self.n_rows.sum():+.6f} ± {1.96 * resampled.std():.6f}"


def right_shift(logits: Floats, labels: Any) -> float:
    """Returns the shift of all logits that makes their total that of the labels, by Newton's steps."""
    shift = 0.0
    for _ in range(20):
        p = sigmoid(logits + shift)
        step = float((labels.sum() - p.sum()) / np.sum(p * (1.0 - p)))
        shift += step
        if abs(step) < 1e-9:
            break
    return shift


def table(headings: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(headings) + " |"
    yield "|" + " --- |" * len(headings)
    yield from ("| " + " | ".join(row) + " |" for row in rows)
    yield ""


def lines(judged: list[Judged]) -> Iterator[str]:
    judged = sorted(judged, key=lambda one: one.values["log_loss"])
    best = judged[0]
    defaults = {one.seed: one for one in judged if one.name == DEFAULT}
    headings = ["calibrator", "log-loss", "minus the best", "minus UMC's default, same seed", "AUC", "ECE", "MFRCE"]
    rows = []
    for one in judged:
        values = [f"{one.values[name]:.4f}" for name in ("auc", "ece", "mfrce", "beyond")]
        values += [f"{one.values['pcoc']:.3f}", f"{one.facts['cpu_seconds']:.0f}"]
        paired = one.difference(defaults[one.seed]) if one.seed in defaults else ""
        memory = f"{one.facts['peak_rss_bytes'] / 2**30:.1f}"
        rows.append([one.title, f"{one.values['log_loss']:.6f}", one.difference(best), paired, *values, memory])
    yield from table([*headings, "beyond its floor", "PCOC", "CPU s", "GiB"], rows)
    weeks = [f"week {week}" for week in best.weeks]
    yield from table(
        ["PCOC", *weeks], [[one.title, *(f"{value:.2f}" for value in one.weeks.values())] for one in judged]
    )
    yield from table(
        ["log-loss, MFRCE beyond its floor", *best.moved], [[one.title, *one.moved.values()] for one in judged]
    )
    for one in judged:
        if "search" in one.facts:
            yield f"{one.name}: {one.facts['search']}"


def main() -> None:
    study = load_study("promotions")
    cells, _ = list_cells(study, Path(sys.argv[1]), RunOptions(data_folder=installed_folder()))
    for spec in [spec for spec in study.data if spec.name in sys.argv[2:] or not sys.argv[2:]]:
        found: dict[Any, Cell] = {}
        for cell in cells:
            if cell.data_name == spec.name and cell.is_finished and cell.result()["status"] == "ok":
                found.setdefault(cell.folder, cell)
        print(f"## {spec.name}\n", flush=True)
        if found:
            data = PreparedData(next(iter(found.values())).data_folder)
            truth = data.truth()
            errors = FieldErrors(np.asarray(truth.labels, dtype=np.float64), np.asarray(data.test().features))
            judged = [Judged(cell, truth, errors) for cell in found.values()]
            print(*lines(judged), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
