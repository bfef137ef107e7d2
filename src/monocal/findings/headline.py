"""The report in a few sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from monocal.findings.cells import Side
from monocal.findings.drift import Drift
from monocal.findings.fields import FieldResult, excess_gap
from monocal.findings.metric_table import MetricRow, MetricTable
from monocal.findings.numbers import count, percent, ratio, signed_percent
from monocal.findings.order import OrderChanges
from monocal.findings.segments import Segments

Mood = Literal["good", "mixed", "bad", "neutral"]


@final
@dataclass(frozen=True)
class KeyFigure:
    """One number that everybody remembers."""

    title: str
    before: str
    after: str
    note: str
    mood: Mood


@final
@dataclass(frozen=True)
class Headline:
    """What to tell others.

    Attributes:
        verdict: One sentence: did calibration help?
        sentences: The few facts behind it.
        figures: Key figures before and after.
        mood: How good the news is.
    """

    verdict: str
    sentences: tuple[str, ...]
    figures: tuple[KeyFigure, ...]
    mood: Mood


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


def headline(
    metrics: MetricTable, fields: Sequence[FieldResult], segments: Segments, drift: Drift, order: OrderChanges
) -> Headline:
    """Writes the headline from the other sections."""
    loss, bias = metrics.row("log_loss"), metrics.row("pcoc")
    return Headline(
        _verdict(loss, bias),
        tuple(
            sentence
            for sentence in (
                _bias_sentence(bias),
                _fields_sentence(fields),
                _worst_sentence(fields),
                _money_sentence(segments),
                _drift_sentence(drift),
                _order_sentence(order, metrics.row("auc")),
            )
            if sentence
        ),
        tuple(figure for figure in _figures(metrics, fields, segments) if figure is not None),
        _mood(loss, bias),
    )


def _verdict(loss: MetricRow | None, bias: MetricRow | None) -> str:
    if loss is None or not loss.verdict:
        return "The data cannot say whether calibration helped."
    change = percent(abs(loss.difference / loss.before.value), digits=2)
    left = ""
    if bias is not None and (bias.after.interval.low > 1.0 or bias.after.interval.high < 1.0):
        left = f" Overall it still {bias_in_words(bias.after.value)}."
    if loss.verdict == "better":
        return f"Calibration helped: log-loss fell by {change}.{left}"
    if loss.verdict == "worse":
        return f"Calibration did harm: log-loss rose by {change}."
    return f"Calibration changed little: log-loss moved by {change}, which could be luck.{left}"


def _bias_sentence(bias: MetricRow | None) -> str:
    if bias is None:
        return ""
    before, after = bias.before.value, bias.after.value
    low, high = bias.after.interval
    if math.isnan(low):
        tail = "these rows cannot say how surely"
    elif low <= 1.0 <= high:
        tail = "which these rows cannot tell from right"
    else:
        tail = f"interval {ratio(low)} to {ratio(high)}"
    return f"Overall the score {bias_in_words(before)}; calibrated it {bias_in_words(after)} ({tail})."


def _fields_sentence(fields: Sequence[FieldResult]) -> str:
    if not fields:
        return ""
    before, after = (sum(one.outside(side) for one in fields) for side in ("before", "after"))
    total = len(fields)
    uneven = sum(one.uneven("after").p_value < 0.05 / total for one in fields)
    level = f" ({uneven} when the overall level is taken out)" if after else ""
    values = {side: sum(one.estimates(side).n_flagged for one in fields) for side in ("before", "after")}
    n_values = sum(len(one.values) for one in fields)
    return (
        f"{after} of {total} fields {'is' if after == 1 else 'are'} outside {'its' if after == 1 else 'their'} noise "
        f"after calibration{level}, {before} before. Of {count(n_values)} field values, "
        f"{count(values['before'])} were off beyond luck before, {count(values['after'])} after."
    )


def _worst_sentence(fields: Sequence[FieldResult]) -> str:
    before, after = _worst(fields, "before"), _worst(fields, "after")
    if after is not None:
        return f"The largest error left: it {after}."
    if before is not None:
        return f"The largest single error, gone now, was that the score {before}."
    return ""


def _worst(fields: Sequence[FieldResult], side: Side) -> str | None:
    found: tuple[float, str] | None = None
    for one in fields:
        estimates = one.estimates(side)
        gaps = abs(excess_gap(one.cells, estimates, side))
        for place in estimates.flagged.nonzero()[0]:
            if found is None or gaps[place] > found[0]:
                promised, happened = one.cells.promise(side).predicted[place], one.cells.observed[place]
                words = bias_in_words(promised / happened) if happened else f"promises {count(promised)} of nothing"
                found = float(gaps[place]), f"{words} on {one.name}={_short(one.values[place])}"
    return None if found is None else found[1]


def _money_sentence(segments: Segments) -> str:
    if not segments.has_value or not segments.worst:
        return ""
    worst = max(segments.worst, key=lambda one: abs(one.before.value_gap))
    if worst.before.value_gap == 0.0:
        return ""
    direction = "too much" if worst.before.value_gap > 0.0 else "too little"
    return (
        f"In money, the largest segment error was {count(abs(worst.before.value_gap))} promised {direction} on "
        f"{_short(worst.name, 60)}; calibrated it is "
        f"{count(abs(worst.after.value_gap)) if worst.after.flagged else 'within noise'}."
    )


def _drift_sentence(drift: Drift) -> str:
    line = drift.after
    if not math.isfinite(line.trend):
        return ""
    if not line.is_real:
        return "Over the period the calibrated forecast shows no trend beyond noise."
    return (
        f"The calibrated forecast drifts: PCOC changed by {signed_percent(line.trend, digits=2)} from the first window "
        "to the last; plan a refit."
    )


def _order_sentence(order: OrderChanges, auc: MetricRow | None) -> str:
    if auc is None:
        return ""
    verdict = {"better": "better", "worse": "worse", "tie": "not distinguishably different"}.get(auc.verdict, "")
    if order.pairs.swapped == 0.0:
        return "No sampled pair of rows changed its order."
    return (
        f"{percent(order.pairs.swapped, digits=2)} of pairs changed their order; ranking is {verdict} "
        f"(AUC {auc.before.value:.4f} to {auc.after.value:.4f})."
    )


def _figures(metrics: MetricTable, fields: Sequence[FieldResult], segments: Segments) -> tuple[KeyFigure | None, ...]:
    bias, loss = metrics.row("pcoc"), metrics.row("log_loss")
    field_error = metrics.row("mfrce")
    return (
        None
        if bias is None
        else KeyFigure(
            "Predicted ÷ observed",
            ratio(bias.before.value),
            ratio(bias.after.value),
            "1 is ideal"
            if math.isnan(bias.after.interval.low)
            else f"1 is ideal; now {ratio(bias.after.interval.low)} to {ratio(bias.after.interval.high)}",
            _figure_mood(bias),
        ),
        None
        if loss is None
        else KeyFigure(
            "Log-loss",
            f"{loss.before.value:.4f}",
            f"{loss.after.value:.4f}",
            f"{signed_percent(loss.difference / loss.before.value, digits=2)}; lower is better",
            _figure_mood(loss),
        ),
        None
        if field_error is None
        else KeyFigure(
            "Error by field value",
            percent(field_error.before.value),
            percent(field_error.after.value),
            f"a perfect forecast would show {percent(field_error.floor)}",
            _figure_mood(field_error),
        ),
        None
        if not segments.n_candidates
        else KeyFigure(
            "Segments off beyond luck",
            count(segments.n_flagged_before),
            count(segments.n_flagged_after),
            f"of {count(segments.n_candidates)} looked at",
            "good" if segments.n_flagged_after < segments.n_flagged_before else "neutral",
        ),
        None
        if not fields
        else KeyFigure(
            "Fields outside noise",
            str(sum(one.outside_before for one in fields)),
            str(sum(one.outside_after for one in fields)),
            f"of {len(fields)}",
            "good"
            if sum(one.outside_after for one in fields) < sum(one.outside_before for one in fields)
            else "neutral",
        ),
    )


def _figure_mood(row: MetricRow) -> Mood:
    moods: dict[str, Mood] = {"better": "good", "worse": "bad"}
    return moods.get(row.verdict, "neutral")


def _mood(loss: MetricRow | None, bias: MetricRow | None) -> Mood:
    if loss is None or not loss.verdict:
        return "neutral"
    if loss.verdict == "worse":
        return "bad"
    if loss.verdict == "better" and (bias is None or bias.verdict != "worse"):
        return "good"
    return "mixed"


def _short(text: str, at_most: int = 40) -> str:
    return text if len(text) <= at_most else text[: at_most - 1] + "…"
