"""Rows to judgements: before and after calibration, by field, and on what was selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.judging.evaluate import evaluate
from monocal.judging.field_table import FieldTable, field_tables
from monocal.judging.judgement import Judgement, headline_metrics
from monocal.judging.product import Product, ProductCheck, check_products
from monocal.judging.report import Report
from monocal.judging.selection import Selection, ranks_within, selection
from monocal.judging.times_seen import SeenBand, by_times_seen
from monocal.tables.rows import Rows

BEFORE, AFTER = "before", "after"


@final
@dataclass(frozen=True, eq=False)
class TaskEvaluation:
    """One task of a table.

    Attributes:
        judgement: Metrics before and after calibration.
        by: Field to its tables, by stage ("before", "after").
        selections: The selected rows, by stage; empty if all rows count.
        seen: Field to errors by how often values were seen in the fit; empty if nobody knows.
    """

    judgement: Judgement
    by: dict[str, dict[str, FieldTable]] = field(default_factory=dict)
    selections: dict[str, Selection] = field(default_factory=dict)
    seen: dict[str, list[SeenBand]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.judgement.as_dict(),
            "by": {
                name: {stage: table.as_dict() for stage, table in tables.items()} for name, tables in self.by.items()
            },
            "new_and_rare_values": {name: [band.as_dict() for band in bands] for name, bands in self.seen.items()},
            "selection": {stage: selected.as_dict() for stage, selected in self.selections.items()},
        }


@final
@dataclass(frozen=True)
class Judging:
    """How rows are judged.

    Attributes:
        metrics: Names; None means the headline ones.
        by: Fields of which every value is judged.
        top_k: Only the k rows of each group that the forecast itself puts on top.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.
        times_seen: Field to the number of rows of the fit that had each row's value.
    """

    metrics: Sequence[str] | None = None
    by: Sequence[str] = ()
    top_k: int | None = None
    n_bootstrap: int = 200
    seed: int = 0
    times_seen: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def resampling(self) -> dict[str, Any]:
        return {"n_bootstrap": self.n_bootstrap, "seed": self.seed}


def judge_rows(
    rows: Rows, calibrated: Mapping[str, Floats] | None = None, judging: Judging | None = None
) -> dict[str, TaskEvaluation]:
    """Judges every task of rows that were read.

    Arguments:
        rows: The rows.
        calibrated: Task to a model's probabilities of all rows; None judges the scores alone.
        judging: How; by default headline metrics on all rows.

    Example:
        >>> from monocal.core.roles import Roles
        >>> from monocal.tables.read import read
        >>> rows = read({"y": [0, 1] * 50, "p": [0.4, 0.8] * 50}, Roles.of(score="p", label="y"))
        >>> round(judge_rows(rows)["y"].judgement.before.value("pcoc"), 2)
        1.2
    """
    return {
        task: _judge_task(rows, task, None if calibrated is None else calibrated[task], judging or Judging())
        for task in rows.scores
    }


def check_row_products(
    rows: Rows, calibrated: Mapping[str, Floats] | None, products: Sequence[Product] = ()
) -> list[ProductCheck]:
    """Says whether products of probabilities agree, before and after calibration, where three tasks are there."""
    scores = rows.roles.score_columns
    if len(scores) < 3:
        return []
    stages = {"score": {column: rows.uncalibrated(task) for task, column in scores.items()}}
    if calibrated is not None:
        stages["calibrated"] = {column: calibrated[task] for task, column in scores.items()}
    labels = {column: rows.labels[task] for task, column in scores.items()}
    return check_products(stages, products=products, labels=labels, weights=rows.weights)


def _judge_task(rows: Rows, task: str, calibrated: Floats | None, judging: Judging) -> TaskEvaluation:
    known = rows.labels[task] >= 0
    if not known.any():
        raise InvalidInput.of(f"labels of task {task!r}", "only nulls", "some labels", "check the label column")
    rows = rows.observed(task)
    stages = {BEFORE: rows.arrived(rows.uncalibrated(task))}
    if calibrated is not None:
        stages[AFTER] = rows.arrived(calibrated if len(calibrated) == rows.n_rows else calibrated[known])
    labels = rows.labels[task]
    selections: dict[str, Selection] = {}
    reports: dict[str, Report] = {}
    tables: dict[str, dict[str, FieldTable]] = {name: {} for name in judging.by}
    for stage, p in stages.items():
        chosen, ranks = _chosen(rows, p, judging.top_k)
        if chosen is not None:
            selections[stage] = selection(
                labels, p, chosen, ranks=ranks, weights=rows.weights, groups=rows.observations, **judging.resampling
            )
        part, q = (rows, p) if chosen is None else (rows.take(np.flatnonzero(chosen)), p[chosen])
        reports[stage] = _report(part, task, q, judging)
        best = stages.get(AFTER, p)
        found = field_tables(
            part.labels[task].astype(np.float64),
            q,
            {name: part.fields[name] for name in judging.by},
            groups=part.groups,
            weights=None if part.weights is None else part.weights.astype(np.float64),
            noise_of=best if chosen is None else best[chosen],
        )
        for name, table in found.items():
            tables[name][stage] = table
    judgement = Judgement(reports[BEFORE], reports.get(AFTER), same_rows=judging.top_k is None)
    seen = {
        name: by_times_seen(counts[known], labels, stages, rows.weights) for name, counts in judging.times_seen.items()
    }
    return TaskEvaluation(judgement, tables, selections, seen)


def _report(rows: Rows, task: str, p: Floats, judging: Judging) -> Report:
    has = {"has_fields": bool(rows.fields), "has_groups": rows.groups is not None}
    return evaluate(
        rows.labels[task],
        p,
        fields={name: column.ids for name, column in rows.fields.items()},
        groups=rows.groups,
        units=rows.units,
        weights=rows.weights,
        metrics=judging.metrics or headline_metrics(**has),
        **judging.resampling,
    )


def _chosen(rows: Rows, p: Floats, top_k: int | None) -> tuple[Any, Any]:
    if top_k is None or rows.groups is None:
        return rows.selected, None
    ranks = ranks_within(p, rows.groups)
    on_top = ranks <= top_k
    return (on_top if rows.selected is None else rows.selected & on_top), ranks
