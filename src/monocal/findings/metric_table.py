"""Every metric before and after, with intervals, noise floors and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from monocal.findings.rows import TaskRows
from monocal.judging.compare import compare
from monocal.judging.evaluate import evaluate
from monocal.judging.report import Report
from monocal.metrics import Interval

MEANINGS = {
    "log_loss": ("Log-loss", "mean cost of the forecast in nats; the fairest single number"),
    "ne": ("Normalised entropy", "log-loss divided by that of always saying the average rate"),
    "brier": ("Brier score", "mean squared distance between forecast and outcome"),
    "pcoc": ("PCOC", "predicted over observed positives; 1 is ideal"),
    "ece": ("ECE", "mean gap between promise and outcome over 100 bins of equal width"),
    "adaptive_ece": ("Adaptive ECE", "the same over bins of equal mass"),
    "smooth_ece": ("Smooth ECE", "calibration error without bins"),
    "rce": ("RCE", "mean relative gap over bins of equal width"),
    "cal_n": ("Cal-N", "root mean square of PCOC's distance from 1 over bins of equal mass"),
    "mce": ("MCE", "largest gap of any bin"),
    "mvce": ("MVCE", "gap over many random cuts of the rows"),
    "fece": ("FECE", "mean gap over the values of the first field"),
    "mfece": ("MFECE", "FECE averaged over all fields"),
    "frce": ("FRCE", "mean relative gap over the values of the first field"),
    "mfrce": ("MFRCE", "FRCE averaged over all fields"),
    "auc": ("AUC", "probability that a positive is ranked above a negative"),
    "gauc": ("GAUC", "AUC inside groups, averaged"),
}
"""How each metric is called and what it says, in reading order."""

MAIN = ("log_loss", "pcoc", "ece", "mfrce", "frce", "auc", "gauc")
"""The metrics everybody sees; the others are one click away."""


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
        title: How people call it.
        meaning: What it says.
        before: Uncalibrated.
        after: Calibrated.
        floor: What a perfect forecast would score: the mean over labels redrawn from the calibrated probabilities.
        difference: After minus before.
        difference_interval: Paired bootstrap interval.
        verdict: What calibration did, judged by the metric's goal: better, worse or tie; empty when undefined.
    """

    name: str
    title: str
    meaning: str
    before: MetricSide
    after: MetricSide
    floor: float
    difference: float
    difference_interval: Interval
    verdict: str

    @property
    def is_main(self) -> bool:
        return self.name in MAIN


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
        return next((one for one in self.rows if one.name == name), None)


def metric_table(
    rows: TaskRows, *, confidence: float = 0.95, n_bootstrap: int = 200, n_floor: int = 100, seed: int = 0
) -> MetricTable:
    """Evaluates both forecasts on the same rows and compares them pair by pair."""

    def measure(probabilities: object) -> Report:
        return evaluate(
            rows.labels,
            probabilities,  # type: ignore[arg-type]
            fields={field.name: field.ids for field in rows.fields},
            groups=rows.groups,
            weights=rows.weights,
            metrics=list(MEANINGS),
            confidence=confidence,
            n_bootstrap=n_bootstrap,
            n_floor=n_floor,
            seed=seed,
        )

    before, after = measure(rows.before), measure(rows.after)
    before.compute_intervals()
    after.compute_intervals()
    after.compute_floors()
    comparison = compare(before, after)
    found: list[MetricRow] = []
    missing: list[tuple[str, str]] = []
    for name, (title, meaning) in MEANINGS.items():
        if before.reason(name) and after.reason(name):
            missing.append((title, after.reason(name)))
            continue
        difference = comparison.difference(name)
        found.append(
            MetricRow(
                name,
                title,
                meaning,
                _side(before, name),
                _side(after, name),
                math.nan if after.reason(name) else after.floor(name),
                difference,
                comparison.interval(name) if math.isfinite(difference) else Interval(math.nan, math.nan),
                comparison.verdict(name) if math.isfinite(difference) else "",
            )
        )
    return MetricTable(tuple(found), tuple(missing), confidence, "rows" if rows.groups is None else "groups")


def _side(report: Report, name: str) -> MetricSide:
    if report.reason(name):
        return MetricSide(math.nan, Interval(math.nan, math.nan), report.reason(name))
    return MetricSide(report.value(name), report.interval(name), "")
