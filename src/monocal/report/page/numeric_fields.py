"""The section on numeric fields: one curve each."""

from __future__ import annotations

from monocal.core.numbers import significant
from monocal.findings.numeric_effects import POINTS_BETWEEN_KNOTS, NumericEffect
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import figure, pair, section, text
from monocal.report.svg.plot import Plot
from monocal.report.svg.scale import Scale, around

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM = 440, 280, 56, 428, 236
_LEAST_SHIFT = 0.05
"""What every axis holds: an effect that nobody would notice is drawn as the flat line that it is."""
_LEAD = (
    "What the calibrator adds in logit for every number, with everything else as in real rows, against the mean over "
    "the knots (dots). Between knots the effect is a straight line, beyond the outer ones it is constant."
)


def numeric_fields(task: TaskReport, identifier: str) -> str:
    """The section on numeric fields; nothing if there are none."""
    if not task.numeric:
        return ""
    figures = [figure(_drawing(field), field.name, legend=False, note=_note(field)) for field in task.numeric]
    return section(identifier, "Numeric fields", text(_LEAD), pair(*figures))


def _drawing(found: NumericEffect) -> str:
    low, high = float(found.numbers[0]), float(found.numbers[-1])
    log = low > 0.0 and high / low > 50.0
    x = Scale(low, high, _LEFT, _RIGHT, log)
    y = Scale(*around(found.shifts, must_hold=(-_LEAST_SHIFT, _LEAST_SHIFT, found.of_null)), _BOTTOM, 12)
    plot = Plot(x, y, _WIDTH, _HEIGHT)
    plot.axes(found.name[:40], "shift in logit", _number, _number, x_ticks=5)
    plot.line([low, high], [0.0, 0.0], "diagonal")
    plot.line(found.numbers, found.shifts, "curve c0")
    knots, shifts = found.numbers[::POINTS_BETWEEN_KNOTS], found.shifts[::POINTS_BETWEEN_KNOTS]
    tips = [f"{_number(a)}: {significant(b, 2)} in logit" for a, b in zip(knots.tolist(), shifts.tolist(), strict=True)]
    plot.dots(knots, shifts, "point c0", tips, radius=2.6)
    return plot.svg(f"Shift in logit by {found.name}, from {_number(low)} to {_number(high)}.")


def _note(found: NumericEffect) -> str:
    return text(f"Rows without a number: {significant(found.of_null, 2)} in logit.")


def _number(value: float) -> str:
    return f"{value:.4g}"
