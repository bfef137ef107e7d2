"""The table of the study `promotions` from its finished cells, without resampling what need not be resampled.

Values of all metrics are those of `evaluate`; differences in log-loss, to the best row and to UMC's default of the same
seed, have a 95 % interval over stores. `monocal bench promotions --finished-only` gives intervals of every metric and
takes much longer. The last table moves all answers of a week by one number: what is lost by not knowing its level.

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
from monocal.lab.studies.study_data import PreparedData

METRICS = ("log_loss", "auc", "ece", "mfrce", "pcoc")
DEFAULT = "UMC, monocal default"
N_DRAWS = 1000
N_FLOOR = 5


class Judged:
    """One finished cell: its metrics, PCOC by week, the sum of losses in every store, and what right levels give."""

    def __init__(self, cell: Cell, data: PreparedData) -> None:
        truth, features = data.truth(), data.test().features
        labels, answers = np.asarray(truth.labels), cell.answers()
        fields = {name: np.asarray(features[:, place]) for place, name in enumerate(data.field_names)}
        self.name, self.seed, self.facts = cell.spec.name, cell.seed, cell.result()
        self.report = evaluate(labels, answers, fields=fields, metrics=list(METRICS), n_floor=N_FLOOR)
        self.beyond_floor = self.report.value("mfrce") - self.report.floor("mfrce")
        self.weeks = pcoc_by_time(answers, labels, np.asarray(truth.times))
        stores = np.unique(np.asarray(truth.groups), return_inverse=True)[1]
        self.n_rows = np.bincount(stores)
        self.losses = np.bincount(stores, log_losses(logit(answers), labels))

        week = np.unique(np.asarray(truth.times), return_inverse=True)[1]
        shifts = np.array([right_shift(logit(answers[week == k]), labels[week == k]) for k in range(week.max() + 1)])
        constant = np.full(len(shifts), right_shift(logit(answers), labels))
        self.moved = {
            "one right level": self._moved(answers, labels, fields, constant[week]),
            "the level of the week before": self._moved(answers, labels, fields, np.append(0.0, shifts[:-1])[week]),
            "every week's right level": self._moved(answers, labels, fields, shifts[week]),
        }

    def _moved(self, answers: Floats, labels: Any, fields: dict[str, Any], shift: Floats) -> str:
        """Returns log-loss and MFRCE beyond the floor after shifts of the logits."""
        logits = logit(answers) + shift
        report = evaluate(labels, sigmoid(logits), fields=fields, metrics=["mfrce"], n_floor=N_FLOOR)
        beyond = report.value("mfrce") - self.report.floor("mfrce")
        return f"{float(log_losses(logits, labels).mean()):.6f}, {beyond:.4f}"

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
    judged = sorted(judged, key=lambda one: one.report.value("log_loss"))
    best = judged[0]
    defaults = {one.seed: one for one in judged if one.name == DEFAULT}
    headings = ["calibrator", "log-loss", "minus the best", "minus UMC's default, same seed", "AUC", "ECE", "MFRCE"]
    rows = []
    for one in judged:
        values = [f"{one.report.value(name):.4f}" for name in METRICS[1:4]]
        values += [f"{one.beyond_floor:.4f}", f"{one.report.value('pcoc'):.3f}"]
        cost = [f"{one.facts['cpu_seconds']:.0f}", f"{one.facts['peak_rss_bytes'] / 2**30:.1f}"]
        paired = one.difference(defaults[one.seed]) if one.seed in defaults else ""
        rows.append([one.title, f"{one.report.value('log_loss'):.6f}", one.difference(best), paired, *values, *cost])
    yield from table([*headings, "beyond its floor", "PCOC", "CPU s", "GiB"], rows)
    weeks = [f"week {week}" for week in best.weeks]
    yield from table(
        ["PCOC", *weeks], [[one.title, *(f"{value:.2f}" for value in one.weeks.values())] for one in judged]
    )
    asis = [f"{one.report.value('log_loss'):.6f}, {one.beyond_floor:.4f}" for one in judged]
    rows = [[one.title, text, *one.moved.values()] for one, text in zip(judged, asis, strict=True)]
    yield from table(["log-loss, MFRCE beyond its floor", "as it is", *best.moved], rows)
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
            print(*lines([Judged(cell, data) for cell in found.values()]), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
