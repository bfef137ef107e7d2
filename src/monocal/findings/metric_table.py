"""Every metric before and after, with intervals, noise floors and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

from monocal.core.spaces import Floats
from monocal.evaluation.compare import Verdict, compare
from monocal.evaluation.evaluate import Evaluation, evaluate
from monocal.findings.before_after import BeforeAfter
from monocal.findings.rows import TaskRows
from monocal.metrics import METRICS, Interval

_UNKNOWN = Interval(math.nan, math.nan)


@final
@dataclass(frozen=True)
class MetricSide:
    """One metric of one forecast; NaN with a reason when undefined."""

    value: float
    interval: Interval
    reason: str


@final
@dataclass(frozen=True)
class MetricRow:
    """One metric before and after.

    Attributes:
        name: Its short name.
        sides: Both forecasts.
        floor: What a perfect forecast would score: the mean over labels redrawn from the calibrated probabilities.
        difference: After minus before.
        difference_interval: Paired bootstrap interval.
        verdict: What calibration did, judged by the metric's goal: better, worse or tie; empty when undefined.
    """

    name: str
    sides: BeforeAfter[MetricSide]
    floor: float
    difference: float
    difference_interval: Interval
    verdict: Verdict | Literal[""]

    @property
    def values(self) -> BeforeAfter[float]:
        return self.sides.map(lambda side: side.value)

    @property
    def relative_change(self) -> float:
        """The difference as a share of the value before."""
        return self.difference / self.sides.before.value


@final
@dataclass(frozen=True)
class MetricTable:
    """All metrics that could be computed, and why the others could not.

    Attributes:
        rows: Metrics that are defined before or after.
        missing: Name and reason of the others.
        confidence: Coverage of intervals.
        resampled: What the bootstrap resamples: "rows" or "groups".
    """

    rows: tuple[MetricRow, ...]
    missing: tuple[tuple[str, str], ...]
    confidence: float
    resampled: str

    def row(self, name: str) -> MetricRow | None:
        """Returns one metric, or None when it is undefined."""
        return next((row for row in self.rows if row.name == name), None)


def metric_table(
    rows: TaskRows, *, confidence: float = 0.95, n_bootstrap: int = 200, n_floor: int = 100, seed: int = 0
) -> MetricTable:
    """Evaluates both forecasts on the same rows and compares them pair by pair."""

    def measure(probabilities: Floats) -> Evaluation:
        report = evaluate(
            rows.labels,
            probabilities,
            fields={field.name: field.ids for field in rows.fields},
            groups=rows.groups,
            units=rows.units,
            weights=rows.weights,
            confidence=confidence,
            n_bootstrap=n_bootstrap,
            n_floor=n_floor,
            seed=seed,
        )
        report.compute_intervals()
        return report

    reports = rows.forecasts.map(measure)
    reports.after.compute_floors()
    comparison = compare(*reports)
    found: list[MetricRow] = []
    missing: list[tuple[str, str]] = []
    for name in METRICS:
        reason = reports.after.reason(name)
        if reports.before.reason(name) and reason:
            missing.append((name, reason))
            continue
        difference = comparison.difference(name)
        is_known = math.isfinite(difference)
        found.append(
            MetricRow(
                name,
                BeforeAfter(*(_side(report, name) for report in reports)),
                math.nan if reason else reports.after.floor(name),
                difference,
                comparison.interval(name) if is_known else _UNKNOWN,
                comparison.verdict(name) if is_known else "",
            )
        )
    return MetricTable(tuple(found), tuple(missing), confidence, "rows" if rows.groups is None else "groups")


def _side(report: Evaluation, name: str) -> MetricSide:
    if report.reason(name):
        return MetricSide(math.nan, _UNKNOWN, report.reason(name))
    return MetricSide(report.value(name), report.interval(name), "")
