"""The table of the study `promotions` from its finished cells, without resampling what need not be resampled.

Values of all metrics are those of `evaluate`; the difference in log-loss to the best row has a 95 % interval over
stores. `monocal bench promotions --finished-only` gives intervals of every metric and takes much longer.

    python benchmarks/quality/promotions.py runs > table.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, logit
from monocal.judging import evaluate
from monocal.lab.sources.complete_journey import installed_folder
from monocal.lab.studies.cell_runner import RunOptions, list_cells
from monocal.lab.studies.cells import Cell
from monocal.lab.studies.evaluator import pcoc_by_time
from monocal.lab.studies.study import load_study
from monocal.lab.studies.study_data import PreparedData

METRICS = ("log_loss", "auc", "ece", "mfrce", "pcoc")
N_DRAWS = 1000
N_FLOOR = 5


class Judged:
    """One finished cell: its metrics, PCOC by week, and the sum of losses in every store."""

    def __init__(self, cell: Cell, data: PreparedData) -> None:
        truth, features = data.truth(), data.test().features
        labels, answers = np.asarray(truth.labels), cell.answers()
        fields = {name: np.asarray(features[:, place]) for place, name in enumerate(data.field_names)}
        self.title, self.facts = f"{cell.spec.name}, seed {cell.seed}", cell.result()
        self.report = evaluate(labels, answers, fields=fields, metrics=list(METRICS), n_floor=N_FLOOR)
        self.weeks = pcoc_by_time(answers, labels, np.asarray(truth.times))
        stores = np.unique(np.asarray(truth.groups), return_inverse=True)[1]
        self.n_rows = np.bincount(stores)
        self.losses: Floats = np.bincount(stores, log_losses(logit(answers), labels))

    def difference(self, other: Judged) -> tuple[float, float]:
        """Returns this one's log-loss minus another's, and half the width of its interval over stores."""
        gaps = self.losses - other.losses
        draws = np.random.default_rng(0).integers(0, len(gaps), (N_DRAWS, len(gaps)))
        resampled = gaps[draws].sum(axis=1) / self.n_rows[draws].sum(axis=1)
        return float(gaps.sum() / self.n_rows.sum()), float(1.96 * resampled.std())


def lines(judged: list[Judged]) -> Iterator[str]:
    judged = sorted(judged, key=lambda one: one.report.value("log_loss"))
    best = judged[0]
    weeks = [f"week {week}" for week in best.weeks]
    yield "| calibrator | log-loss | minus the best | AUC | ECE | MFRCE | PCOC | CPU s | GiB |"
    yield "|" + " --- |" * 9
    for one in judged:
        gap, half = one.difference(best)
        values = [f"{one.report.value(name):.4f}" for name in METRICS[1:4]] + [f"{one.report.value('pcoc'):.3f}"]
        cost = [f"{one.facts['cpu_seconds']:.0f}", f"{one.facts['peak_rss_bytes'] / 2**30:.1f}"]
        paired = "" if one is best else f"{gap:+.6f} ± {half:.6f}"
        texts = [one.title, f"{one.report.value('log_loss'):.6f}", paired, *values, *cost]
        yield "| " + " | ".join(texts) + " |"
    floors = [f"{best.report.floor(name):.4f}" for name in ("ece", "mfrce")]
    yield f"| *floor of the best* | | | | {floors[0]} | {floors[1]} | | | |"
    yield ""
    yield "| PCOC | " + " | ".join(weeks) + " |"
    yield "|" + " --- |" * (len(weeks) + 1)
    for one in judged:
        yield f"| {one.title} | " + " | ".join(f"{value:.2f}" for value in one.weeks.values()) + " |"


def main() -> None:
    study = load_study("promotions")
    cells, _ = list_cells(study, Path(sys.argv[1]), RunOptions(data_folder=installed_folder()))
    for spec in study.data:
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
