"""The tables of a report: metrics before and after, errors by field value, errors by how often a value was seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.evaluation.compare import Verdict, compare
from monocal.evaluation.evaluate import Evaluation, evaluate
from monocal.evaluation.fields import FieldErrors, SeenBand, by_times_seen, field_errors
from monocal.metrics import METRICS, Interval
from monocal.models.facts import times_seen
from monocal.models.model import Model
from monocal.reports.rows import SIDES, BeforeAfter, Side, TaskRows

Mood = Literal["good", "mixed", "bad", "neutral"]
MOODS: dict[str, Mood] = {"better": "good", "worse": "bad"}
"""The colour of a verdict; a tie is neutral."""

UNEVEN_LEVEL = 0.05
"""A field counts as uneven below this p-value divided by the number of fields."""

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


@final
@dataclass(frozen=True, eq=False)
class FieldResult:
    """All values of one field, most frequent first.

    Attributes:
        name: The field.
        values: Its values.
        unseen_share: Share of rows whose value the model had never met; NaN if it does not know the field.
        errors: Estimates of both forecasts.
        dispersion: How much groups widen the noise of its values.
        shown: Places of the values worth a row in a table: in turn the worst and the largest.
    """

    name: str
    values: tuple[str, ...]
    unseen_share: float
    errors: BeforeAfter[FieldErrors]
    dispersion: float
    shown: NDArray[np.intp]

    @property
    def weight(self) -> Floats:
        """Rows of each value."""
        return self.errors.after.cells.weight

    @property
    def observed(self) -> Floats:
        """Positives of each value."""
        return self.errors.after.cells.observed


def field_results(rows: TaskRows, *, confidence: float = 0.95, n_shown: int = 40) -> tuple[FieldResult, ...]:
    """Estimates every value of every field for both forecasts.

    Arguments:
        rows: The rows.
        confidence: Coverage of intervals.
        n_shown: How many values per field are worth a row in a table.
    """
    dispersions = [rows.dispersion(field.ids) for field in rows.fields]
    sums = [
        rows.cells(field.ids, field.n_values, dispersion)
        for field, dispersion in zip(rows.fields, dispersions, strict=True)
    ]
    kept = [np.flatnonzero(pair.after.weight > 0.0) for pair in sums]
    before, after = (
        field_errors([pair[side].take(places) for pair, places in zip(sums, kept, strict=True)], confidence)
        for side in SIDES
    )
    found = []
    for place, field in enumerate(rows.fields):
        errors = BeforeAfter(before[place], after[place])
        values = tuple(field.values[value] for value in kept[place])
        shown = _worth_showing(errors, n_shown)
        found.append(FieldResult(field.name, values, field.unseen_share, errors, dispersions[place], shown))
    return tuple(found)


def _worth_showing(errors: BeforeAfter[FieldErrors], n_shown: int) -> NDArray[np.intp]:
    impact = np.maximum(*(np.abs(side.excess) for side in errors))
    worst, largest = np.argsort(-impact, kind="stable"), np.argsort(-errors.after.cells.weight, kind="stable")
    in_turn = np.stack([worst, largest], axis=1).ravel()
    _, first_seen = np.unique(in_turn, return_index=True)
    shown: NDArray[np.intp] = in_turn[np.sort(first_seen)][:n_shown]
    return shown


def rows_seen(model: Model, known: Mapping[str, Ids]) -> dict[str, NDArray[np.int64]]:
    """Returns categorical field to how many rows of the fit had each row's value; empty if the model does not know.

    Arguments:
        model: The model.
        known: Its fields in the numbering of its vocabulary.
    """
    if not model.value_counts:
        return {}
    found = dict(zip(known, times_seen(model.value_counts, np.stack(list(known.values()), axis=1)), strict=True))
    return {name: found[name] for name in model.vocabulary.category_names}


def new_and_rare_values(rows: TaskRows) -> dict[str, list[SeenBand]]:
    """Returns field to errors by how often values were seen; a field whose values were all frequent is left out.

    Arguments:
        rows: The observed rows of one task.
    """
    stages: dict[str, Floats] = {"before": rows.forecasts.before, "after": rows.forecasts.after}
    found = {name: by_times_seen(seen, rows.labels, stages, rows.weights) for name, seen in rows.times_seen.items()}
    return {name: bands for name, bands in found.items() if len(bands) > 1}


@final
@dataclass(frozen=True)
class WorstValue:
    """The field value with the largest significant error.

    Attributes:
        field: The field.
        value: Its value.
        predicted: Predicted positives.
        observed: Observed positives.
    """

    field: str
    value: str
    predicted: float
    observed: float


@final
@dataclass(frozen=True)
class CostliestValue:
    """The field value whose error costs most, in the unit of the value column.

    Attributes:
        field: The field.
        value: Its value.
        gaps: Predicted minus delivered value of both forecasts; 0 where it is not significant.
    """

    field: str
    value: str
    gaps: BeforeAfter[float]


@final
@dataclass(frozen=True)
class Headline:
    """What to tell others.

    Attributes:
        mood: How good the news is.
        significant_fields: Fields that are off after correction.
        n_uneven: Fields that are off after calibration even when the overall bias is taken out.
        significant_values: Field values that are off after correction.
        n_values: Field values in all.
        worst: The value with the largest error; None where no value is off.
        costliest: The value with the largest significant error in money before calibration; None without a value column
            or such an error.
    """

    mood: Mood
    significant_fields: BeforeAfter[int]
    n_uneven: int
    significant_values: BeforeAfter[int]
    n_values: int
    worst: BeforeAfter[WorstValue | None]
    costliest: CostliestValue | None


def headline(metrics: MetricTable, fields: Sequence[FieldResult]) -> Headline:
    """Collects the headline from the other findings."""
    level = UNEVEN_LEVEL / max(len(fields), 1)
    return Headline(
        mood=_mood(metrics),
        significant_fields=BeforeAfter(*(sum(field.errors[side].is_significant for field in fields) for side in SIDES)),
        n_uneven=sum(field.errors.after.relative_spread.p_value < level for field in fields),
        significant_values=BeforeAfter(*(sum(field.errors[side].n_flagged for field in fields) for side in SIDES)),
        n_values=sum(len(field.values) for field in fields),
        worst=BeforeAfter(*(_worst(fields, side) for side in SIDES)),
        costliest=_costliest(fields),
    )


def _mood(metrics: MetricTable) -> Mood:
    loss, bias = metrics.row("log_loss"), metrics.row("pcoc")
    if loss is None or not loss.verdict:
        return "neutral"
    if loss.verdict == "better" and bias is not None and bias.verdict == "worse":
        return "mixed"
    return MOODS.get(loss.verdict, "mixed")


def _worst(fields: Sequence[FieldResult], side: Side) -> WorstValue | None:
    largest, found = 0.0, None
    for field in fields:
        errors = field.errors[side]
        size = np.where(errors.flagged, np.abs(errors.cells.gap), 0.0)
        place = int(np.argmax(size)) if size.size else 0
        if size.size and size[place] > largest:
            largest = float(size[place])
            cells = errors.cells
            found = WorstValue(
                field.name, field.values[place], float(cells.predicted[place]), float(cells.observed[place])
            )
    return found


def _costliest(fields: Sequence[FieldResult]) -> CostliestValue | None:
    largest, found = 0.0, None
    for field in fields:
        gaps = field.errors.map(lambda errors: np.where(errors.flagged, np.nan_to_num(errors.cells.value_gap), 0.0))
        place = int(np.argmax(np.abs(gaps.before))) if field.values else 0
        if field.values and abs(gaps.before[place]) > largest:
            largest = float(abs(gaps.before[place]))
            at = BeforeAfter(float(gaps.before[place]), float(gaps.after[place]))
            found = CostliestValue(field.name, field.values[place], at)
    return found
