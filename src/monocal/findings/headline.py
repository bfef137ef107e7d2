"""The few facts that others should be told: verdict, counts of what is off, the largest errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from monocal.findings.before_after import SIDES, BeforeAfter, Side
from monocal.findings.fields import FieldResult
from monocal.findings.metric_table import MetricTable

Mood = Literal["good", "mixed", "bad", "neutral"]
MOODS: dict[str, Mood] = {"better": "good", "worse": "bad"}
"""How good the news of a verdict is; a tie is neutral."""

UNEVEN_LEVEL = 0.05
"""A field counts as uneven below this p-value divided by the number of fields."""


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
