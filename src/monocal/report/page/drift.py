"""PCOC over time."""

from __future__ import annotations

import math

import numpy as np

from monocal.core.numbers import count, p_value, percent, ratio, shorten, signed_percent
from monocal.findings.drift import Drift, DriftLine, Moved
from monocal.findings.report_data import TaskReport
from monocal.metrics.drift import StabilityIndex
from monocal.report.page.elements import (
    Cell,
    Column,
    Row,
    figure,
    number,
    pair,
    section,
    table,
    text,
)
from monocal.report.svg.plot import Label, Plot
from monocal.report.svg.scale import Scale, around

_WIDTH, _HEIGHT, _LEFT, _RIGHT = 440, 300, 56, 424
_BOTTOM = 256


def over_time(task: TaskReport, identifier: str) -> str:
    """The section of drift."""
    found = task.drift
    lead = f"{text(found.windows.words)}. {_sides(found)}{_shift_words(found.score_shift)}"
    parts = [
        pair(
            figure(ratio_lines(found), "Predicted / observed over time", note="Bands are intervals; 1 is ideal."),
            figure(rate_lines(found), "Rates over time", note="Thin line with points: what was observed."),
        )
    ]
    if found.moved:
        parts += [
            "<h3>Values that moved</h3>",
            '<p class="note">Calibrated PCOC in the first and the second half of the period, for the values that '
            f"changed significantly ({text(count(found.n_values))} were tested, false discovery rate held).</p>",
            table(f"{identifier}-moved", "Values whose PCOC moved", _MOVED_COLUMNS, map(_moved_row, found.moved)),
        ]
    return section(identifier, "Over time", lead, *parts)


def ratio_lines(found: Drift) -> str:
    """PCOC per window with its interval."""
    known = np.concatenate([column for line in found.lines for column in (line.cells.pcoc, line.low, line.high)])
    known = np.clip(known[np.isfinite(known)], 0.2, 5.0)
    low, high = around(known, logarithmic=True, must_hold=(0.9, 1.1))
    plot = _frame(found, Scale(low, high, _BOTTOM, 12, True), "predicted / observed", lambda tick: f"{tick:g}")
    plot.line(found.windows.starts[[0, -1]], [1.0, 1.0], "ideal")
    for side, line in found.lines.items():
        pcoc = line.cells.pcoc
        tips = [
            f"{side}, {found.windows.label(place)}: PCOC {ratio(float(pcoc[place]))} "
            f"({ratio(float(line.low[place]))} … {ratio(float(line.high[place]))})"
            for place in range(found.windows.n_windows)
        ]
        with plot.group(side):
            plot.band(found.windows.starts, line.low, np.where(np.isinf(line.high), high, line.high), f"band {side}")
            plot.line(found.windows.starts, pcoc, f"line {side}")
            plot.dots(found.windows.starts, pcoc, f"dot {side}", tips, radius=2.8)
    return plot.svg(f"PCOC per window. {_sides(found)}")


def rate_lines(found: Drift) -> str:
    """Observed rate and mean predictions per window."""
    predicted = found.lines.map(lambda line: line.cells.predicted_rate)
    observed, weight = found.lines.after.cells.observed_rate, found.lines.after.cells.weight
    _, high = around(np.concatenate([observed, *predicted]))
    plot = _frame(found, Scale(0.0, high, _BOTTOM, 12), "rate", lambda tick: percent(tick, 2))
    for side, rates in predicted.items():
        with plot.group(side):
            plot.line(found.windows.starts, rates, f"line {side}")
    plot.line(found.windows.starts, observed, "line observed")
    tips = [
        f"{found.windows.label(place)}: observed {percent(float(observed[place]))}, predicted before "
        f"{percent(float(predicted.before[place]))}, after {percent(float(predicted.after[place]))}, "
        f"{count(float(weight[place]))} rows"
        for place in range(found.windows.n_windows)
    ]
    plot.dots(found.windows.starts, observed, "dot observed", tips, radius=2.4)
    return plot.svg("Observed rate per window with the mean prediction before and after calibration.")


def _frame(found: Drift, y: Scale, y_title: str, y_label: Label) -> Plot:
    starts = found.windows.starts
    last = float(starts[-1]) if starts.shape[0] > 1 else float(starts[0]) + 1.0
    plot = Plot(Scale(float(starts[0]), last, _LEFT, _RIGHT), y, _WIDTH, _HEIGHT)
    places = np.unique(np.linspace(0, starts.shape[0] - 1, min(4, starts.shape[0])).astype(int))
    days_only = found.windows.calendar and float(starts[-1] - starts[0]) > 3 * 86_400
    marks = []
    for place in places:
        label = found.windows.label(int(place))
        if found.windows.calendar:
            label = label[5:10] if days_only else label[5:]
        marks.append((float(starts[place]), label))
    title = "start of window" if found.windows.calendar else found.windows.kind
    plot.axes(title, y_title, str, y_label, x_marks=marks)
    return plot


def _sides(found: Drift) -> str:
    return f"Before: {_words(found.lines.before)}. After: {_words(found.lines.after)}."


def _words(line: DriftLine) -> str:
    variation = (
        f"it varies by about {percent(line.variation.relative_error, 2)} beyond chance"
        if line.varies
        else "its variation is not significant"
    )
    trend = line.trend
    if not math.isfinite(trend.change):
        return f"too few windows for a trend; {variation}"
    if not trend.is_significant:
        return f"no significant trend; {variation}"
    return (
        f"PCOC changes by {signed_percent(trend.change, 2)} from start to end "
        f"({signed_percent(trend.low, 2)} … {signed_percent(trend.high, 2)}); {variation}"
    )


def _shift_words(shift: StabilityIndex) -> str:
    if not math.isfinite(shift.value):
        return ""
    word = "stable" if shift.value < 0.1 else ("somewhat shifted" if shift.value < 0.25 else "shifted")
    return (
        f" Against the rows the model was fitted on, the score is {word} (population stability index "
        f"{shift.value:.3f}; chance alone gives {shift.noise:.3f})."
    )


_MOVED_COLUMNS = (
    Column("Value", numeric=False),
    Column("Positives"),
    Column("First half", "calibrated PCOC"),
    Column("Second half", "calibrated PCOC"),
    Column("p-value"),
)


def _moved_row(moved: Moved) -> Row:
    return Row(
        (
            Cell(f"{text(moved.field)}=<b>{text(shorten(moved.value))}</b>", f"{moved.field}={moved.value}"[:80]),
            number(count(moved.observed)),
            number(ratio(moved.first_pcoc)),
            number(ratio(moved.second_pcoc)),
            number(p_value(moved.p_value), moved.p_value),
        )
    )
