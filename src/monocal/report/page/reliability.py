"""The reliability diagram, its ratio, and the histogram of scores."""

from __future__ import annotations

import numpy as np

from monocal.core.numbers import count, percent, ratio
from monocal.findings.before_after import Side
from monocal.findings.reliability import Reliability, ReliabilityCurve
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import (
    Column,
    Row,
    details,
    figure,
    number,
    pair,
    section,
    table,
    words,
)
from monocal.report.svg.plot import Plot
from monocal.report.svg.scale import Scale, around

_WIDTH, _LEFT, _RIGHT = 440, 56, 428


def reliability(task: TaskReport, identifier: str) -> str:
    """The section of reliability."""
    found = task.reliability
    before, after = found.curves.map(_outside)
    lead = (
        "Rows are cut into bins of equal size by the predicted probability. On the diagonal, predicted and observed "
        "rate agree; below it, the forecast predicts too much. The interval of the observed rate excludes the "
        f"prediction in {before} bins before, in {after} after."
    )
    numbers = details(
        "The bins in numbers",
        table(f"{identifier}-bins", "Bins of the reliability diagram", _COLUMNS, _rows(found), shown=40),
    )
    return section(
        identifier,
        "Reliability",
        lead,
        pair(
            figure(
                diagram(found),
                "Reliability diagram",
                note="Bands: interval of the observed rate. Below: where scores lie.",
            ),
            figure(ratios(found), "Predicted / observed by score", note="1 is ideal; whiskers are intervals."),
        ),
        numbers,
    )


def diagram(found: Reliability) -> str:
    """Observed rate against prediction, with a histogram of the scores below on the same axis."""
    log = found.logarithmic
    seen = np.concatenate(
        [column for curve in found.curves for column in (curve.predicted, curve.observed, curve.high)]
    )
    predicted = np.concatenate([curve.predicted for curve in found.curves])
    least = float(predicted[predicted > 0.0].min(initial=1.0)) / 2.0 if log else 0.0
    low, high = around(seen[seen >= least], logarithmic=log, must_hold=() if log else (0.0,))
    low, high = max(low, 0.0), min(high, 1.0)
    x, y = Scale(low, high, _LEFT, _RIGHT, log), Scale(low, high, 290, 12, log)
    plot = Plot(x, y, _WIDTH, 410)
    plot.axes("", "observed rate", _tick, _tick, x_ticks=5)
    plot.line([low, high], [low, high], "diagonal")
    for side, curve in found.curves.items():
        with plot.group(side):
            plot.band(curve.predicted, np.maximum(curve.low, low), curve.high, f"band {side}")
            plot.line(curve.predicted, np.maximum(curve.observed, low), f"line {side}")
            plot.dots(curve.predicted, np.maximum(curve.observed, low), f"dot {side}", _tips(curve, side))
    tallest = max(float(heights.max(initial=0.0)) for heights in found.histograms) or 1.0
    below = Plot(x, Scale(0.0, tallest, 372, 318), _WIDTH, 410)
    for side, heights in found.histograms.items():
        with below.group(side):
            below.steps(np.clip(found.edges, low, high), heights, f"steps {side}")
    below.text((_LEFT + _RIGHT) / 2, 398, "predicted probability", "axis", anchor="middle")
    below.text(12, 345, "rows", "axis", anchor="middle", turned=True)
    plot.include(below)
    before, after = found.curves.map(_outside)
    return plot.svg(
        f"Reliability diagram. Before calibration {before} bins are off the diagonal beyond their interval, after it "
        f"{after}."
    )


def ratios(found: Reliability) -> str:
    """PCOC per bin: the same bins, with the eye on the error."""
    log = found.logarithmic
    low, high = around(np.concatenate([curve.predicted for curve in found.curves]), logarithmic=log)
    x = Scale(max(low, 0.0), min(high, 1.0), _LEFT, _RIGHT, log)
    known = np.concatenate([column for curve in found.curves for column in (curve.pcoc, *curve.pcoc_interval)])
    known = known[np.isfinite(known) & (known > 0.0)]
    bottom, top = around(np.clip(known, 0.2, 5.0), logarithmic=True, must_hold=(0.9, 1.1))
    plot = Plot(x, Scale(bottom, top, 372, 12, True), _WIDTH, 410)
    plot.axes("predicted probability", "predicted / observed", _tick, lambda tick: f"{tick:g}", x_ticks=5)
    plot.line([x.low, x.high], [1.0, 1.0], "ideal")
    for side, curve in found.curves.items():
        least, most = curve.pcoc_interval
        with plot.group(side):
            plot.whiskers(curve.predicted, least, np.where(np.isinf(most), top, most), f"whisker {side}")
            plot.line(curve.predicted, curve.pcoc, f"line {side}")
            plot.dots(curve.predicted, curve.pcoc, f"dot {side}", _tips(curve, side))
    return plot.svg("Predicted over observed positives per bin, before and after calibration; 1 is ideal.")


_COLUMNS = (
    Column("Side", numeric=False),
    Column("Predicted"),
    Column("Observed"),
    Column("Interval", numeric=False),
    Column("Predicted / observed"),
    Column("Rows"),
    Column("Positives"),
)


def _rows(found: Reliability) -> list[Row]:
    rows = []
    for side, curve in found.curves.items():
        for place in range(len(curve.weight)):
            predicted, seen = float(curve.predicted[place]), float(curve.observed[place])
            rows.append(
                Row(
                    (
                        words(side),
                        number(percent(predicted)),
                        number(percent(seen)),
                        words(f"{percent(float(curve.low[place]))} … {percent(float(curve.high[place]))}"),
                        number(ratio(predicted / seen if seen else float("nan"))),
                        number(count(float(curve.weight[place]))),
                        number(count(float(curve.positives[place]))),
                    )
                )
            )
    return rows


def _outside(curve: ReliabilityCurve) -> str:
    return f"{curve.n_outside} of {len(curve.weight)}"


def _tips(curve: ReliabilityCurve, side: Side) -> list[str]:
    return [
        f"{side}: predicted {percent(float(p))}, observed {percent(float(y))} "
        f"({percent(float(a))} … {percent(float(b))}), {count(float(n))} rows"
        for p, y, a, b, n in zip(curve.predicted, curve.observed, curve.low, curve.high, curve.weight, strict=True)
    ]


def _tick(rate: float) -> str:
    return percent(rate, 2)
