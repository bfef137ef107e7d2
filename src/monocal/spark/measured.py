"""What an evaluation on a cluster found: numbers, without access to the rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from monocal.core.errors import UnknownName
from monocal.core.spaces import Floats
from monocal.evaluation.compare import Comparison
from monocal.evaluation.evaluate import MeasuredValues, text_table
from monocal.metrics import AnyMetric, Value
from monocal.spark.resampling import NO_INTERVAL


@final
@dataclass(eq=False, repr=False)
class Measured(MeasuredValues):
    """Values of metrics on one forecast, as `monocal.evaluation.Report` has them, without access to the rows.

    Intervals and floors are there if the evaluation was asked for them, for metrics whose `interval_reason` is empty.

    Attributes:
        n_rows: Rows that were judged.
        values: Metric to what was found.
        metrics: Metric to its options.
        confidence: Coverage of intervals.
        resampled: Metric to its values on resampled rows; None if intervals were not asked for.
        redrawn: Metric to its values on redrawn labels.

    Example:
        >>> found = Measured(2, {"pcoc": Value(1.25), "mvce": Value.undefined("needs every row in one place")})
        >>> found.value("pcoc"), found.reason("mvce"), found.interval_reason("pcoc")
        (1.25, 'needs every row in one place', 'not asked for')
    """

    n_rows: int
    values: Mapping[str, Value]
    metrics: Mapping[str, AnyMetric] = field(default_factory=dict)
    confidence: float = 0.95
    resampled: Mapping[str, Floats] | None = None
    redrawn: Mapping[str, Floats] = field(default_factory=dict)

    def replicates(self, name: str) -> Floats:
        """The bootstrap replicates behind `interval`; none where `interval_reason` says why."""
        self._found(name)
        return (self.resampled or {}).get(name, np.zeros(0))

    def interval_reason(self, name: str) -> str:
        """Why there is no interval; empty if there is one."""
        if self.reason(name) or self.resampled is None:
            return self.reason(name) or "not asked for"
        return "" if name in self.resampled else NO_INTERVAL

    def compute_intervals(self, names: Iterable[str] | None = None) -> None:
        """Does nothing: intervals were computed with the values, or not at all."""

    def as_dict(self) -> dict[str, Any]:
        """Returns plain numbers ready for JSON; undefined ones are None and have a reason."""
        return {"n_rows": self.n_rows, "metrics": {name: self._entry(name) for name in self.names}}

    def __repr__(self) -> str:
        lines = [
            ("metric", "value"),
            *((name, "–" if value.reason else f"{value.number:.5f}") for name, value in self.values.items()),
        ]
        reasons = [f"{name}: {value.reason}" for name, value in self.values.items() if value.reason]
        return "\n".join([f"{self.n_rows:,} rows", *text_table(lines), *reasons])

    def _draws_of(self, name: str) -> Floats:
        return self.redrawn.get(name, np.zeros(0))

    def _entry(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = {"value": _plain(self.value(name)), "reason": self.reason(name)}
        if self.resampled is not None:
            entry["interval"] = [_plain(end) for end in self.interval(name)]
            entry["interval_reason"] = self.interval_reason(name)
            entry["floor"] = _plain(self.floor(name))
            entry["excess"] = _plain(self.excess(name))
        return {**entry, "details": {key: _plain(number) for key, number in self.details(name).items()}}


@final
@dataclass(frozen=True, eq=False)
class ClusterEvaluation:
    """All tasks of a table.

    Attributes:
        tasks: Task to what was found by stage: "before" calibration and, with a model, "after" it.
    """

    tasks: Mapping[str, Mapping[str, Measured]]

    def change(self, task: str) -> Comparison | None:
        """Returns what calibration changed: paired differences of the same resampled rows; None without a model.

        Needs `intervals`; metrics that have none are ties.
        """
        if task not in self.tasks:
            raise UnknownName.among("task", task, self.tasks)
        before, *after = self.tasks[task].values()
        return Comparison(before, after[0]) if after else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "tasks": {
                task: {stage: found.as_dict() for stage, found in stages.items()} for task, stages in self.tasks.items()
            }
        }


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None
