"""Everything a report says, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from monocal.evaluation.fields import SeenBand
from monocal.findings.carried_forward import CarriedForward
from monocal.findings.drift import Drift
from monocal.findings.fields import FieldResult
from monocal.findings.headline import Headline
from monocal.findings.learned_curves import LearnedCurves
from monocal.findings.metric_table import MetricTable
from monocal.findings.numeric_effects import NumericEffect
from monocal.findings.provenance import Provenance
from monocal.findings.reliability import Reliability


@final
@dataclass(frozen=True, eq=False)
class TaskReport:
    """One task, before and after calibration.

    Attributes:
        name: The task.
        method: Name of the calibrator.
        method_summary: One line about it.
        score: The score's column.
        label: The label's column.
        weight: Rows, counted with their weights.
        observed: Positives, likewise.
        fell_back: Whether the calibrator gave the score back unchanged because its fit was harmful.
        groups: The group column; None if none was named.
        value: The value column; None if none was named.
        headline: The few numbers that come first.
        metrics: Every metric with its interval and floor.
        reliability: Predicted against observed rates.
        fields: Errors by field and value.
        drift: Errors over time.
        curves: What the calibrator does to the score.
        carried: What is carried forward; None for a method that believes everything it learned.
        seen: Field to errors by how often its values were seen in the fit; empty if the model does not know.
        numeric: The effect of every numeric field.
    """

    name: str
    method: str
    method_summary: str
    score: str
    label: str
    weight: float
    observed: float
    fell_back: bool
    groups: str | None
    value: str | None
    headline: Headline
    metrics: MetricTable
    reliability: Reliability
    fields: tuple[FieldResult, ...]
    drift: Drift
    curves: LearnedCurves
    carried: CarriedForward | None
    seen: Mapping[str, Sequence[SeenBand]]
    numeric: tuple[NumericEffect, ...] = ()


@final
@dataclass(frozen=True, eq=False)
class ReportData:
    """A whole report.

    Attributes:
        title: What the page is called.
        tasks: One part per task.
        provenance: Fingerprints and how to do it again.
        confidence: Coverage of intervals.
    """

    title: str
    tasks: tuple[TaskReport, ...]
    provenance: Provenance
    confidence: float

    def task(self, name: str | None = None) -> TaskReport:
        """Returns a task by name; without a name, the first."""
        return next(task for task in self.tasks if name is None or task.name == name)
