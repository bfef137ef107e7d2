"""The drawings of a report, each a function from numbers to a `Drawing` that serves the page and a notebook alike."""

from __future__ import annotations

import numpy as np

from monocal.core.numbers import count, percent, ratio, significant
from monocal.reports.curves import POINTS_BETWEEN_KNOTS, LearnedCurve, LearnedCurves, NumericEffect
from monocal.reports.data import FieldResult
from monocal.reports.drift import Drift
from monocal.reports.reliability import Reliability, ReliabilityCurve
from monocal.reports.svg import Drawing, Label, Plot, Scale, around

_WIDTH, _LEFT, _RIGHT, _TOP = 440, 56, 428, 12
_SIDES = (("line before", "before calibration"), ("line after", "after calibration"))
_LEAST_SHIFT = 0.05
"""What the axis of every numeric field holds: an effect that nobody would notice is drawn as a flat line."""

_ROW_WIDTH, _ROW_REACH = 150, 3.0
_ROW_AXIS = Scale(1.0 / _ROW_REACH, _ROW_REACH, 4, _ROW_WIDTH - 4, logarithmic=True)


def reliability_plot(found: Reliability) -> Drawing:
    """Observed rate against prediction with its interval, and a histogram of the scores below on the same axis.

    Example:
        >>> import monocal
        >>> from monocal.reports import build_report
        >>> log = monocal.simulate_log(4_000).table()
        >>> model = monocal.fit(log.slice(0, 2_000), method="platt", score="pctr", label="click")
        >>> report = build_report(model, log.slice(2_000), n_bootstrap=20)
        >>> reliability_plot(report.task().reliability).words
        'Reliability diagram. Before calibration 3 of 5 bins are off the diagonal beyond their interval, ...'
    """
    log = found.logarithmic
    curves = found.curves.values()
    seen = np.concatenate([part for curve in curves for part in (curve.predicted, curve.observed, curve.high)])
    predicted = np.concatenate([curve.predicted for curve in curves])
    least = float(predicted[predicted > 0.0].min(initial=1.0)) / 2.0 if log else 0.0
    low, high = around(seen[seen >= least], logarithmic=log, must_hold=() if log else (0.0,))
    low, high = max(low, 0.0), min(high, 1.0)
    x = Scale(low, high, _LEFT, _RIGHT, log)
    plot = Plot(x, Scale(low, high, 290, _TOP, log), _WIDTH, 410)
    plot.axes("", "observed rate", _rate, _rate)
    plot.line([low, high], [low, high], "diagonal")
    for side, curve in found.curves.items():
        observed = np.maximum(curve.observed, low)
        with plot.group(side):
            plot.band(curve.predicted, np.maximum(curve.low, low), curve.high, f"band {side}")
            plot.line(curve.predicted, observed, f"line {side}")
            plot.dots(curve.predicted, observed, f"dot {side}", _bin_tips(curve, side))
    tallest = max(float(heights.max(initial=0.0)) for heights in found.histograms.values()) or 1.0
    below = Plot(x, Scale(0.0, tallest, 372, 318), _WIDTH, 410)
    for side, heights in found.histograms.items():
        with below.group(side):
            below.steps(np.clip(found.edges, low, high), heights, f"steps {side}")
    below.text((_LEFT + _RIGHT) / 2, 398, "predicted probability", "axis", anchor="middle")
    below.text(12, 345, "rows", "axis", anchor="middle", turned=True)
    plot.include(below)
    before, after = (f"{curve.n_outside} of {len(curve.weight)}" for curve in curves)
    return plot.drawing(
        f"Reliability diagram. Before calibration {before} bins are off the diagonal beyond their interval, after it "
        f"{after}.",
        _SIDES,
    )


def ratio_plot(found: Reliability) -> Drawing:
    """Predicted over observed per bin: the bins of the reliability diagram, with the eye on the error.

    Arguments:
        found: `build_report(...).task().reliability`.
    """
    log = found.logarithmic
    low, high = around(np.concatenate([curve.predicted for curve in found.curves.values()]), logarithmic=log)
    x = Scale(max(low, 0.0), min(high, 1.0), _LEFT, _RIGHT, log)
    known = np.concatenate([part for curve in found.curves.values() for part in (curve.pcoc, *curve.pcoc_interval)])
    known = known[np.isfinite(known) & (known > 0.0)]
    bottom, top = around(np.clip(known, 0.2, 5.0), logarithmic=True, must_hold=(0.9, 1.1))
    plot = Plot(x, Scale(bottom, top, 372, _TOP, True), _WIDTH, 410)
    plot.axes("predicted probability", "predicted / observed", _rate, _plain)
    plot.line([x.low, x.high], [1.0, 1.0], "ideal")
    for side, curve in found.curves.items():
        least, most = curve.pcoc_interval
        with plot.group(side):
            plot.whiskers(curve.predicted, least, np.where(np.isinf(most), top, most), f"whisker {side}")
            plot.line(curve.predicted, curve.pcoc, f"line {side}")
            plot.dots(curve.predicted, curve.pcoc, f"dot {side}", _bin_tips(curve, side))
    return plot.drawing("Predicted over observed positives per bin, before and after calibration; 1 is ideal.", _SIDES)


def drift_plot(found: Drift) -> Drawing:
    """Predicted over observed positives per window of time, with its interval.

    Arguments:
        found: `build_report(...).task().drift`.
    """
    starts = found.windows.starts
    known = np.concatenate([part for line in found.lines.values() for part in (line.cells.pcoc, line.low, line.high)])
    known = np.clip(known[np.isfinite(known)], 0.2, 5.0)
    low, high = around(known, logarithmic=True, must_hold=(0.9, 1.1))
    plot = _over_time(found, Scale(low, high, 256, _TOP, True), "predicted / observed", _plain)
    plot.line(starts[[0, -1]], [1.0, 1.0], "ideal")
    for side, line in found.lines.items():
        pcoc = line.cells.pcoc
        columns = ([ratio(number) for number in column.tolist()] for column in (pcoc, line.low, line.high))
        tips = [
            f"{side}, {found.windows.label(at)}: PCOC {value} ({least} … {most})"
            for at, (value, least, most) in enumerate(zip(*columns, strict=True))
        ]
        with plot.group(side):
            plot.band(starts, line.low, np.where(np.isinf(line.high), high, line.high), f"band {side}")
            plot.line(starts, pcoc, f"line {side}")
            plot.dots(starts, pcoc, f"dot {side}", tips, radius=2.8)
    return plot.drawing("PCOC per window, before and after calibration; 1 is ideal.", _SIDES)


def rates_plot(found: Drift) -> Drawing:
    """Observed rate and mean predictions per window of time.

    Arguments:
        found: `build_report(...).task().drift`.
    """
    starts = found.windows.starts
    predicted = {side: line.cells.predicted_rate for side, line in found.lines.items()}
    cells = found.lines["after"].cells
    observed = cells.observed_rate
    _, high = around(np.concatenate([observed, *predicted.values()]))
    plot = _over_time(found, Scale(0.0, high, 256, _TOP), "rate", _rate)
    for side, rates in predicted.items():
        with plot.group(side):
            plot.line(starts, rates, f"line {side}")
    plot.line(starts, observed, "line observed")
    shown = ([percent(rate) for rate in column.tolist()] for column in (observed, *predicted.values()))
    tips = [
        f"{found.windows.label(at)}: observed {rate}, predicted before {before}, after {after}, {count(n)} rows"
        for at, (rate, before, after, n) in enumerate(zip(*shown, cells.weight.tolist(), strict=True))
    ]
    plot.dots(starts, observed, "dot observed", tips, radius=2.4)
    return plot.drawing(
        "Observed rate per window with the mean prediction before and after calibration.",
        (*_SIDES, ("line observed", "observed")),
    )


def curves_plot(found: LearnedCurves) -> Drawing:
    """Calibrated probability against score for typical and extreme rows, on logarithmic axes where scores are small.

    Arguments:
        found: `build_report(...).task().curves`.
    """
    log = float(np.median(found.scores)) < 0.2
    seen = np.concatenate([found.scores, *(curve.calibrated for curve in found.curves)])
    low, high = around(np.maximum(seen, 1e-6), logarithmic=log, must_hold=() if log else (0.0,))
    low, high = max(low, 0.0), min(high, 1.0)
    plot = Plot(Scale(low, high, _LEFT, _RIGHT, log), Scale(low, high, 336, _TOP, log), _WIDTH, 380)
    plot.column(*found.middle, "middle")
    plot.axes("score", "calibrated probability", _rate, _rate)
    plot.line([low, high], [low, high], "diagonal")
    for place, curve in enumerate(found.curves):
        plot.line(found.scores, curve.calibrated, f"curve c{place}")
        tips = [
            f"{curve_name(curve)}: score {percent(float(score))} → {percent(float(calibrated))}"
            for score, calibrated in zip(found.scores[::10], curve.calibrated[::10], strict=True)
        ]
        plot.dots(found.scores[::10], curve.calibrated[::10], f"point c{place}", tips, radius=2.6)
    return plot.drawing(
        f"Learned maps from score to probability for {len(found.curves)} kinds of rows; all axes are rates.",
        [(f"curve c{place}", curve_name(curve)) for place, curve in enumerate(found.curves)],
    )


def effect_plot(found: NumericEffect) -> Drawing:
    """The effect of one numeric field in logit.

    Arguments:
        found: One of `build_report(...).task().numeric`.
    """
    low, high = float(found.numbers[0]), float(found.numbers[-1])
    x = Scale(low, high, _LEFT, _RIGHT, low > 0.0 and high / low > 50.0)
    y = Scale(*around(found.shifts, must_hold=(-_LEAST_SHIFT, _LEAST_SHIFT, found.of_null)), 236, _TOP)
    plot = Plot(x, y, _WIDTH, 280)
    plot.axes(found.name[:40], "shift in logit", _number, _number)
    plot.line([low, high], [0.0, 0.0], "diagonal")
    plot.line(found.numbers, found.shifts, "curve c0")
    knots, shifts = found.numbers[::POINTS_BETWEEN_KNOTS], found.shifts[::POINTS_BETWEEN_KNOTS]
    tips = [f"{_number(a)}: {significant(b, 2)} in logit" for a, b in zip(knots.tolist(), shifts.tolist(), strict=True)]
    plot.dots(knots, shifts, "point c0", tips, radius=2.6)
    return plot.drawing(f"Shift in logit by {found.name}, from {_number(low)} to {_number(high)}.")


def interval_row(field: FieldResult, place: int) -> str:
    """A drawing for a table row: PCOC of a value with its interval, before above and after below, from ⅓ by 1 to 3."""
    marks = []
    for height, (side, errors) in zip((6, 14), field.errors.items(), strict=True):
        value, low, high = (float(column[place]) for column in (errors.cells.pcoc, errors.low, errors.high))
        if not np.isnan([low, high]).any():
            marks.append(f'<path class="{side}" d="M{_ROW_AXIS.at(low):.0f} {height}H{_ROW_AXIS.at(high):.0f}"/>')
        if not np.isnan(value):
            marks.append(f'<circle class="{side}" cx="{_ROW_AXIS.at(value):.0f}" cy="{height}" r="3"/>')
    return f'<svg class="row" viewBox="0 0 {_ROW_WIDTH} 20" aria-hidden="true">{"".join(marks)}</svg>'


def curve_name(curve: LearnedCurve) -> str:
    """What a learned curve is called in a legend."""
    values = ", ".join(f"{field}={value[:24]}" for field, value in curve.values)
    return f"{curve.name}: {values}" if values else curve.name


def _over_time(found: Drift, y: Scale, y_title: str, y_label: Label) -> Plot:
    windows, starts = found.windows, found.windows.starts
    last = float(starts[-1]) if starts.shape[0] > 1 else float(starts[0]) + 1.0
    plot = Plot(Scale(float(starts[0]), last, _LEFT, 424), y, _WIDTH, 300)
    places = np.unique(np.linspace(0, starts.shape[0] - 1, min(4, starts.shape[0])).astype(int))
    days_only = windows.calendar and float(starts[-1] - starts[0]) > 3 * 86_400
    shown = slice(5, 10) if days_only else slice(5 if windows.calendar else 0, None)
    marks = [(float(starts[place]), windows.label(int(place))[shown]) for place in places]
    title = "start of window" if windows.calendar else windows.kind
    plot.axes(title, y_title, str, y_label, x_marks=marks)
    return plot


def _bin_tips(curve: ReliabilityCurve, side: str) -> list[str]:
    rates = (curve.predicted, curve.observed, curve.low, curve.high)
    shown = ([percent(rate) for rate in column.tolist()] for column in rates)
    return [
        f"{side}: predicted {predicted}, observed {observed} ({low} … {high}), {count(n)} rows"
        for predicted, observed, low, high, n in zip(*shown, curve.weight.tolist(), strict=True)
    ]


def _rate(share: float) -> str:
    return percent(share, 2)


def _plain(number: float) -> str:
    return f"{number:g}"


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")
