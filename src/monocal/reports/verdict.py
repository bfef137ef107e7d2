"""What the numbers of a task say in sentences: the verdict, the facts behind it, the figures that one remembers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, final

import numpy as np

from monocal.core.numbers import count, percent, ratio, shorten, signed_percent
from monocal.core.scores import Floats
from monocal.evaluation.compare import Verdict
from monocal.evaluation.fields import FieldErrors
from monocal.evaluation.result import Evaluation
from monocal.metrics.drift import StabilityIndex
from monocal.reports.drift import Drift, DriftLine

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


def headline(metrics: Evaluation, fields: Sequence[FieldResult]) -> Headline:
    """Collects the few numbers that come first from the other findings."""
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
        mood=_mood(metrics),
        significant_fields={side: sum(found.is_significant for found in errors) for side, errors in sides.items()},
        n_uneven=sum(found.relative_spread.p_value < level for found in sides["after"]),
        significant_values={side: sum(found.n_flagged for found in errors) for side, errors in sides.items()},
        n_values=sum(len(field.values) for field in fields),
        worst=worst,
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
    """One sentence: did calibration help?"""
    metrics, found = task.metrics, change_verdict(task.metrics, "log_loss")
    if not found:
        return "There are too few data for a verdict on log-loss."
    if found == "cannot tell":
        return f"The rows are too few to say whether calibration helped: {_too_few(metrics)}."
    change = percent(abs(relative_change(metrics, "log_loss")), digits=2)
    if found == "worse":
        return f"Calibration did harm: log-loss rose by {change}."
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


def sentences(task: TaskReport) -> list[str]:
    """The few facts behind the verdict."""
    found = (_bias(task), _fields(task), _worst(task.headline.worst), _value(task), _drift(task), _ranking(task))
    return [sentence for sentence in found if sentence]


def drift_in_words(found: Drift) -> str:
    """One sentence about both forecasts over time."""
    return f"Before: {_line_in_words(found.lines['before'])}. After: {_line_in_words(found.lines['after'])}."


def score_shift_in_words(shift: StabilityIndex) -> str:
    """How far the score moved since the fit; empty if nobody knows."""
    if not math.isfinite(shift.value):
        return ""
    word = "stable" if shift.value < 0.1 else ("somewhat shifted" if shift.value < 0.25 else "shifted")
    return (
        f"Against the rows the model was fitted on, the score is {word} (population stability index "
        f"{shift.value:.3f}; chance alone gives {shift.noise:.3f})."
    )


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


@final
@dataclass(frozen=True)
class KeyFigure:
    """One number that everybody remembers, before and after, as text."""

    title: str
    values: dict[str, str]
    note: str
    mood: Mood


def key_figures(task: TaskReport) -> Iterator[KeyFigure]:
    """Yields the figures that are known."""
    metrics = task.metrics

    def figure(name: str, title: str, shown: Callable[[float], str], note: str) -> KeyFigure:
        mood = MOODS.get(change_verdict(metrics, name), "neutral")
        values = {side: shown(found.value(name)) for side, found in metrics.stages.items()}
        return KeyFigure(title, values, note, mood)

    if is_defined(metrics, "pcoc"):
        low, high = metrics.interval("pcoc")
        note = "1 is ideal" if math.isnan(low) else f"1 is ideal; now {ratio(low)} to {ratio(high)}"
        yield figure("pcoc", "Predicted / observed", ratio, note)
    if is_defined(metrics, "log_loss"):
        note = f"{signed_percent(relative_change(metrics, 'log_loss'), digits=2)}; lower is better"
        yield figure("log_loss", "Log-loss", lambda value: f"{value:.4f}", note)
    if is_defined(metrics, "mfrce"):
        note = f"a perfect forecast would show {percent(metrics.floor('mfrce'))}"
        yield figure("mfrce", "Error by field value", percent, note)
    if task.fields:
        yield _counted("Values significantly off", task.headline.significant_values, count(task.headline.n_values))
        yield _counted("Fields significantly off", task.headline.significant_fields, str(len(task.fields)))


def _counted(title: str, numbers: Mapping[str, int], total: str) -> KeyFigure:
    mood: Mood = "good" if numbers["after"] < numbers["before"] else "neutral"
    return KeyFigure(title, {side: count(number) for side, number in numbers.items()}, f"of {total}", mood)


def _bias(task: TaskReport) -> str:
    if not is_defined(task.metrics, "pcoc"):
        return ""
    low, high = task.metrics.interval("pcoc")
    if math.isnan(low):
        tail = "too few rows for an interval"
    elif low <= 1.0 <= high:
        tail = "not significantly different from 1"
    else:
        tail = f"interval {ratio(low)} to {ratio(high)}"
    before, after = (bias_in_words(side.value("pcoc")) for side in task.metrics.stages.values())
    return f"Overall the score {before}; calibrated it {after} ({tail})."


def _fields(task: TaskReport) -> str:
    head = task.headline
    if not task.fields:
        return ""
    fields, values = head.significant_fields, head.significant_values
    level = f" ({head.n_uneven} when the overall bias is taken out)" if fields["after"] else ""
    return (
        f"{fields['after']} of {len(task.fields)} fields {'is' if fields['after'] == 1 else 'are'} significantly off "
        f"after calibration{level}, {fields['before']} before. Of {count(head.n_values)} field values, "
        f"{count(values['before'])} were significantly off before, {count(values['after'])} after."
    )


def _worst(worst: Mapping[str, WorstValue | None]) -> str:
    left, was = worst["after"], worst["before"]
    if left is not None:
        return f"The largest error left: it {_error(left)}."
    return "" if was is None else f"The largest error before, no longer significant: the score {_error(was)}."


def _error(worst: WorstValue) -> str:
    if worst.observed:
        size = bias_in_words(worst.predicted / worst.observed)
    else:
        size = f"predicts {count(worst.predicted)} positives and none was observed"
    return f"{size} on {worst.field}={shorten(worst.value)}"


def _value(task: TaskReport) -> str:
    found = task.headline.costliest
    if found is None:
        return ""
    before, after = found.gaps.values()
    left = count(abs(after)) if after else "not significant"
    return (
        f"In {task.value}, the largest error was {count(abs(before))} predicted too "
        f"{'much' if before > 0.0 else 'little'} on {found.field}={shorten(found.value)}; calibrated it is {left}."
    )


def _drift(task: TaskReport) -> str:
    trend = task.drift.lines["after"].trend
    if not math.isfinite(trend.change):
        return ""
    if not trend.is_significant:
        return "Over the period the calibrated forecast shows no significant trend."
    return (
        f"The calibrated forecast drifts: PCOC changed by {signed_percent(trend.change, digits=2)} from the first "
        "window to the last; plan a refit."
    )


def _ranking(task: TaskReport) -> str:
    auc = change_verdict(task.metrics, "auc")
    if auc in ("", "cannot tell"):
        return ""
    ranking = auc if auc in ("better", "worse") else "not significantly different"
    before, after = (side.value("auc") for side in task.metrics.stages.values())
    return f"Ranking is {ranking} (AUC {before:.4f} to {after:.4f})."


def _line_in_words(line: DriftLine) -> str:
    variation = "its variation is not significant"
    if line.varies:
        variation = f"it varies by about {percent(line.variation.relative_error, 2)} beyond chance"
    trend = line.trend
    if not math.isfinite(trend.change):
        return f"too few windows for a trend; {variation}"
    if not trend.is_significant:
        return f"no significant trend; {variation}"
    return (
        f"PCOC changes by {signed_percent(trend.change, 2)} from start to end "
        f"({signed_percent(trend.low, 2)} … {signed_percent(trend.high, 2)}); {variation}"
    )
