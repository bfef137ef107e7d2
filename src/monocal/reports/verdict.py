"""The few numbers of a task that come first, and what they say in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, final

import numpy as np

from monocal.core.numbers import percent
from monocal.core.scores import Floats
from monocal.evaluation.fields import FieldErrors
from monocal.evaluation.paired import Outcome
from monocal.evaluation.result import Evaluation

if TYPE_CHECKING:
    from monocal.reports.data import FieldResult, TaskReport

Mood = Literal["good", "mixed", "bad", "neutral"]
MOODS: dict[str, Mood] = {"better": "good", "worse": "bad"}
"""The colour of a verdict; a tie is neutral."""

UNEVEN_LEVEL = 0.05
"""A field counts as uneven below this p-value divided by the number of fields."""


class WorstValue(NamedTuple):
    """The field value with the largest significant error: predicted and observed positives."""

    field: str
    value: str
    predicted: float
    observed: float


class CostliestValue(NamedTuple):
    """The field value whose error costs most: predicted minus delivered value, 0 where it is not significant."""

    field: str
    value: str
    gaps: dict[str, float]


@final
@dataclass(frozen=True)
class Headline:
    """What to tell others.

    Attributes:
        mood: How good the news is.
        significant_fields: Fields that are off after correction, before and after calibration.
        n_uneven: Fields that are off after calibration even when the overall bias is taken out.
        significant_values: Field values that are off after correction.
        n_values: Field values in all.
        worst: The value with the largest error; None where no value is off.
        costliest: The value with the largest significant error in money before calibration; None without a value column
            or such an error.
    """

    mood: Mood
    significant_fields: dict[str, int]
    n_uneven: int
    significant_values: dict[str, int]
    n_values: int
    worst: dict[str, WorstValue | None]
    costliest: CostliestValue | None


def headline(metrics: Evaluation, fields: Sequence[FieldResult], *, failed: bool = False) -> Headline:
    """Collects the few numbers that come first from the other findings; what failed a check is not shown as good."""
    level = UNEVEN_LEVEL / max(len(fields), 1)
    sides = {side: [field.errors[side] for field in fields] for side in metrics.stages}
    worst: dict[str, WorstValue | None] = {}
    for side, errors in sides.items():
        largest = _largest([_significant(found, found.cells.gap) for found in errors])
        worst[side] = None
        if largest is not None:
            field, place = fields[largest[0]], largest[1]
            cells = errors[largest[0]].cells
            numbers = float(cells.predicted[place]), float(cells.observed[place])
            worst[side] = WorstValue(field.name, field.values[place], *numbers)
    return Headline(
        mood=_mood(metrics, failed=failed),
        significant_fields={side: sum(found.is_significant for found in errors) for side, errors in sides.items()},
        n_uneven=sum(found.relative_spread.p_value < level for found in sides["after"]),
        significant_values={side: sum(found.n_flagged for found in errors) for side, errors in sides.items()},
        n_values=sum(len(field.values) for field in fields),
        worst=worst,
        costliest=_costliest(fields),
    )


def change_verdict(metrics: Evaluation, name: str) -> Outcome | Literal[""]:
    """Returns what calibration did to a metric, by its goal; empty where that is undefined."""
    change = metrics.change
    return change.verdict(name) if change is not None and math.isfinite(change.difference(name)) else ""


def _mood(metrics: Evaluation, *, failed: bool) -> Mood:
    loss = change_verdict(metrics, "log_loss")
    if loss in ("", "cannot tell"):
        return "neutral"
    if failed:
        return "bad"
    if loss == "better" and change_verdict(metrics, "pcoc") == "worse":
        return "mixed"
    return MOODS.get(loss, "mixed")


def _costliest(fields: Sequence[FieldResult]) -> CostliestValue | None:
    gaps = [
        {side: _significant(errors, errors.cells.value_gap) for side, errors in field.errors.items()}
        for field in fields
    ]
    found = _largest([pair["before"] for pair in gaps])
    if found is None:
        return None
    field, place = fields[found[0]], found[1]
    sides = {side: float(gap[place]) for side, gap in gaps[found[0]].items()}
    return CostliestValue(field.name, field.values[place], sides)


def _significant(errors: FieldErrors, gap: Floats) -> Floats:
    return np.where(errors.flagged, np.nan_to_num(gap), 0.0)


def _largest(gaps: Sequence[Floats]) -> tuple[int, int] | None:
    """Returns which field and which of its values has the largest gap either way; None if there is none."""
    sizes = [float(np.abs(gap).max(initial=0.0)) for gap in gaps]
    if not any(sizes):
        return None
    at = int(np.argmax(sizes))
    return at, int(np.argmax(np.abs(gaps[at])))


def verdict(task: TaskReport) -> str:
    """One or two sentences: did calibration help, and is that enough?"""
    metrics, found = task.metrics, change_verdict(task.metrics, "log_loss")
    if not found:
        return "There are too few data for a verdict on log-loss."
    if found == "cannot tell":
        return f"The rows are too few to say whether calibration helped: {_too_few(metrics)}."
    change = percent(abs(relative_change(metrics, "log_loss")), digits=2)
    if found == "worse":
        return f"Calibration did harm: log-loss rose by {change}."
    if task.failing:
        change_word = {"better": "fell by", "tie": "moved by"}[found]
        return f"Not fit for use: {'; '.join(check.text for check in task.failing)}. Log-loss {change_word} {change}."
    low, high = metrics.interval("pcoc")
    left = f" Overall it still {bias_in_words(metrics.value('pcoc'))}." if low > 1.0 or high < 1.0 else ""
    if found == "better":
        return f"Calibration helped: log-loss fell by {change}.{left}"
    return f"Calibration changed little: log-loss moved by {change}, which is not significant.{left}"


def _too_few(metrics: Evaluation) -> str:
    return "" if metrics.change is None else metrics.change.too_few


def is_defined(metrics: Evaluation, name: str) -> bool:
    """Returns whether a metric is known before or after calibration."""
    return not all(side.reason(name) for side in metrics.stages.values())


def relative_change(metrics: Evaluation, name: str) -> float:
    """Returns how much a metric changed by calibration, as a share of its value before."""
    change = metrics.change
    return math.nan if change is None else change.difference(name) / change.first.value(name)


def bias_in_words(pcoc: float) -> str:
    """Says what a PCOC means.

    Example:
        >>> bias_in_words(1.12), bias_in_words(0.9), bias_in_words(1.0004)
        ('over-predicts by 12\\u202f%', 'under-predicts by 10\\u202f%', 'is right on average')
    """
    if not math.isfinite(pcoc):
        return "has no positive to compare with"
    if abs(pcoc - 1.0) < 0.0005:
        return "is right on average"
    return f"{'over' if pcoc > 1.0 else 'under'}-predicts by {percent(abs(pcoc - 1.0), digits=2)}"
