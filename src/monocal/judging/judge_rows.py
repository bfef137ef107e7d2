"""Rows to judgements: before and after calibration, and by field."""

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
from monocal.judging.report import Report
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
        seen: Field to errors by how often values were seen in the fit; empty if nobody knows.
    """

    judgement: Judgement
    by: dict[str, dict[str, FieldTable]] = field(default_factory=dict)
    seen: dict[str, list[SeenBand]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.judgement.as_dict(),
            "by": {
                name: {stage: table.as_dict() for stage, table in tables.items()} for name, tables in self.by.items()
            },
            "new_and_rare_values": {name: [band.as_dict() for band in bands] for name, bands in self.seen.items()},
        }


@final
@dataclass(frozen=True)
class Judging:
    """How rows are judged.

    Attributes:
        metrics: Names; None means the headline ones.
        by: Fields of which every value is judged.
        n_bootstrap: Replicates behind an interval.
        seed: Seed of resampling.
        times_seen: Field to the number of rows of the fit that had each row's value.
    """

    metrics: Sequence[str] | None = None
    by: Sequence[str] = ()
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


def _judge_task(rows: Rows, task: str, calibrated: Floats | None, judging: Judging) -> TaskEvaluation:
    known = rows.labels[task] >= 0
    if not known.any():
        raise InvalidInput.of(f"labels of task {task!r}", "only nulls", "some labels", "check the label column")
    rows = rows.observed(task)
    stages = {BEFORE: rows.arrived(rows.uncalibrated(task))}
    if calibrated is not None:
        stages[AFTER] = rows.arrived(calibrated if len(calibrated) == rows.n_rows else calibrated[known])
    labels = rows.labels[task]
    reports: dict[str, Report] = {}
    tables: dict[str, dict[str, FieldTable]] = {name: {} for name in judging.by}
    for stage, p in stages.items():
        reports[stage] = _report(rows, task, p, judging)
        found = field_tables(
            labels.astype(np.float64),
            p,
            {name: rows.fields[name] for name in judging.by},
            groups=rows.groups,
            weights=None if rows.weights is None else rows.weights.astype(np.float64),
            noise_of=stages.get(AFTER, p),
        )
        for name, table in found.items():
            tables[name][stage] = table
    judgement = Judgement(reports[BEFORE], reports.get(AFTER))
    seen = {
        name: by_times_seen(counts[known], labels, stages, rows.weights) for name, counts in judging.times_seen.items()
    }
    return TaskEvaluation(judgement, tables, seen)


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
