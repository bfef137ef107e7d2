"""Errors by field value, and the few numbers of a report that come first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.scores import Floats
from monocal.evaluation.compare import Verdict
from monocal.evaluation.fields import FieldErrors, field_errors
from monocal.evaluation.result import Evaluation
from monocal.reports.rows import SIDES, BeforeAfter, Side, TaskRows

Mood = Literal["good", "mixed", "bad", "neutral"]
MOODS: dict[str, Mood] = {"better": "good", "worse": "bad"}
"""The colour of a verdict; a tie is neutral."""

UNEVEN_LEVEL = 0.05
"""A field counts as uneven below this p-value divided by the number of fields."""


@final
@dataclass(frozen=True, eq=False)
class FieldResult:
    """All values of one field, most frequent first.

    Attributes:
        name: The field.
        values: Its values.
        unseen_share: Share of rows whose value was not in the fit; NaN if it does not know the field.
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


def headline(metrics: Evaluation, fields: Sequence[FieldResult]) -> Headline:
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


def change_verdict(metrics: Evaluation, name: str) -> Verdict | Literal[""]:
    """Returns what calibration did to a metric, by its goal; empty where that is undefined."""
    change = metrics.change
    return change.verdict(name) if change is not None and math.isfinite(change.difference(name)) else ""


def _mood(metrics: Evaluation) -> Mood:
    loss = change_verdict(metrics, "log_loss")
    if loss in ("", "cannot tell"):
        return "neutral"
    if loss == "better" and change_verdict(metrics, "pcoc") == "worse":
        return "mixed"
    return MOODS.get(loss, "mixed")


def _worst(fields: Sequence[FieldResult], side: Side) -> WorstValue | None:
    cells = [field.errors[side].cells for field in fields]
    found = _largest([_significant(field.errors[side], field.errors[side].cells.gap) for field in fields])
    if found is None:
        return None
    at, place = found
    predicted, observed = float(cells[at].predicted[place]), float(cells[at].observed[place])
    return WorstValue(fields[at].name, fields[at].values[place], predicted, observed)


def _costliest(fields: Sequence[FieldResult]) -> CostliestValue | None:
    gaps = [field.errors.map(lambda errors: _significant(errors, errors.cells.value_gap)) for field in fields]
    found = _largest([pair.before for pair in gaps])
    if found is None:
        return None
    at, place = found
    return CostliestValue(fields[at].name, fields[at].values[place], gaps[at].map(lambda gap: float(gap[place])))


def _significant(errors: FieldErrors, gap: Floats) -> Floats:
    return np.where(errors.flagged, np.nan_to_num(gap), 0.0)


def _largest(gaps: Sequence[Floats]) -> tuple[int, int] | None:
    """Returns which field and which of its values has the largest gap either way; None if there is none."""
    sizes = [float(np.abs(gap).max(initial=0.0)) for gap in gaps]
    if not any(sizes):
        return None
    at = int(np.argmax(sizes))
    return at, int(np.argmax(np.abs(gaps[at])))
