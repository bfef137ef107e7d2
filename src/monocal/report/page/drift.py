"""PCOC over time."""

from __future__ import annotations

import math

import numpy as np

from monocal.findings.cells import SIDES
from monocal.findings.drift import Drift, DriftLine, Moved
from monocal.findings.numbers import count, p_value, percent, ratio, signed_percent
from monocal.findings.report_data import TaskReport
from monocal.metrics.stability_index import StabilityIndex
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
    lead = (
        f"{text(found.windows.words)}. Before: {_words(found.before)}. After: {_words(found.after)}."
        f"{_shift_words(found.score_shift)}"
    )
    parts = [
        pair(
            figure(ratio_lines(found), "Predicted ÷ observed over time", note="Bands are intervals; 1 is ideal."),
            figure(rate_lines(found), "Rates over time", note="Thin line with points: what was observed."),
        )
    ]
    if found.moved:
        parts += [
            "<h3>Values that moved</h3>",
            '<p class="note">Calibrated PCOC in the first and the second half of the period, for the values that '
            f"changed beyond luck ({text(count(found.n_values))} were tested, false discovery rate held).</p>",
            table(f"{identifier}-moved", "Values whose PCOC moved", _MOVED_COLUMNS, map(_moved_row, found.moved)),
        ]
    return section(identifier, "Over time", lead, *parts)


def ratio_lines(found: Drift) -> str:
    """PCOC per window with its interval."""
    known = np.concatenate([np.concatenate([one.pcoc, one.low, one.high]) for one in (found.before, found.after)])
    known = np.clip(known[np.isfinite(known)], 0.2, 5.0)
    low, high = around(known, logarithmic=True, must_hold=(0.9, 1.1))
    plot = _frame(found, Scale(low, high, _BOTTOM, 12, True), "predicted ÷ observed", lambda one: f"{one:g}")
    plot.line(found.windows.starts[[0, -1]], [1.0, 1.0], "ideal")
    for side in SIDES:
        line = found.line(side)
        tips = [
            f"{side}, {found.windows.label(place)}: PCOC {ratio(float(line.pcoc[place]))} "
            f"({ratio(float(line.low[place]))} … {ratio(float(line.high[place]))})"
            for place in range(found.windows.n_windows)
        ]
        plot.group(side)
        plot.band(found.windows.starts, line.low, np.where(np.isinf(line.high), high, line.high), f"band {side}")
        plot.line(found.windows.starts, line.pcoc, f"line {side}")
        plot.dots(found.windows.starts, line.pcoc, f"dot {side}", tips, radius=2.8)
        plot.end_group()
    return plot.svg(f"PCOC per window. Before: {_words(found.before)}. After: {_words(found.after)}.")


def rate_lines(found: Drift) -> str:
    """Observed rate and mean promises per window."""
    cells = found.cells
    observed = cells.observed / cells.weight
    promised = {side: cells.promise(side).predicted / cells.weight for side in SIDES}
    _, high = around(np.concatenate([observed, *promised.values()]))
    plot = _frame(found, Scale(0.0, high, _BOTTOM, 12), "rate", lambda one: percent(one, 2))
    for side in SIDES:
        plot.group(side)
        plot.line(found.windows.starts, promised[side], f"line {side}")
        plot.end_group()
    plot.line(found.windows.starts, observed, "line observed")
    tips = [
        f"{found.windows.label(place)}: observed {percent(float(observed[place]))}, promised before "
        f"{percent(float(promised['before'][place]))}, after {percent(float(promised['after'][place]))}, "
        f"{count(float(cells.weight[place]))} rows"
        for place in range(found.windows.n_windows)
    ]
    plot.dots(found.windows.starts, observed, "dot observed", tips, radius=2.4)
    return plot.svg("Observed rate per window with the mean promise before and after calibration.")


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


def _words(line: DriftLine) -> str:
    wobble = (
        f"it varies by about {percent(line.wobble.relative_error, 2)} beyond luck"
        if line.wobble.p_value < 0.05 and line.wobble.relative_error > 0.0
        else "luck explains how it varies"
    )
    if not math.isfinite(line.trend):
        return f"too few windows for a trend; {wobble}"
    if not line.is_real:
        return f"no trend beyond luck; {wobble}"
    return (
        f"PCOC changes by {signed_percent(line.trend, 2)} from start to end "
        f"({signed_percent(line.trend_low, 2)} … {signed_percent(line.trend_high, 2)}); {wobble}"
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


def _moved_row(one: Moved) -> Row:
    return Row(
        (
            Cell(f"{text(one.field)}=<b>{text(one.value[:40])}</b>", f"{one.field}={one.value}"[:80]),
            number(count(one.observed)),
            number(ratio(one.first_pcoc)),
            number(ratio(one.second_pcoc)),
            number(p_value(one.p_value), one.p_value),
        )
    )
