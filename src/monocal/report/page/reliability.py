"""The reliability diagram, its ratio, and the histogram of scores."""

from __future__ import annotations

import numpy as np

from monocal.findings.cells import SIDES, Side
from monocal.findings.numbers import count, percent, ratio
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
    lead = (
        "Rows are cut into bins of equal size by what was promised. On the diagonal, promise and outcome agree; "
        "below it, "
        "too much was promised. "
        f"{found.before.n_outside} of {len(found.before.weight)} bins missed their promise before, "
        f"{found.after.n_outside} of {len(found.after.weight)} after."
    )
    numbers = details(
        "The bins in numbers",
        table(f"{identifier}-bins", "Bins of the reliability diagram", _COLUMNS, _rows(found), shown=40),
    )
    return section(
        identifier,
        "Promise and outcome",
        lead,
        pair(
            figure(
                diagram(found), "Reliability", note="Bands: interval of the observed rate. Below: where scores lie."
            ),
            figure(ratios(found), "Predicted ÷ observed by score", note="1 is ideal; whiskers are intervals."),
        ),
        numbers,
    )


def diagram(found: Reliability) -> str:
    """Observed rate against promise, with a histogram of the scores below on the same axis."""
    log = found.logarithmic
    curves = [found.before, found.after]
    seen = np.concatenate([np.concatenate([one.predicted, one.observed, one.high]) for one in curves])
    least = min(float(one.predicted[one.predicted > 0.0].min(initial=1.0)) for one in curves) / 2.0 if log else 0.0
    low, high = around(seen[seen >= least], logarithmic=log, must_hold=() if log else (0.0,))
    low, high = max(low, 0.0), min(high, 1.0)
    x, y = Scale(low, high, _LEFT, _RIGHT, log), Scale(low, high, 290, 12, log)
    plot = Plot(x, y, _WIDTH, 410)
    plot.axes("", "observed rate", _tick, _tick, x_ticks=5)
    plot.line([low, high], [low, high], "diagonal")
    for side, curve in zip(SIDES, curves, strict=True):
        plot.group(side)
        plot.band(curve.predicted, np.maximum(curve.low, low), curve.high, f"band {side}")
        plot.line(curve.predicted, np.maximum(curve.observed, low), f"line {side}")
        plot.dots(curve.predicted, np.maximum(curve.observed, low), f"dot {side}", _tips(curve, side))
        plot.end_group()
    heights = {"before": found.histogram_before, "after": found.histogram_after}
    tallest = max(float(one.max(initial=0.0)) for one in heights.values()) or 1.0
    below = Plot(x, Scale(0.0, tallest, 372, 318), _WIDTH, 410)
    for side in SIDES:
        below.group(side)
        below.steps(np.clip(found.edges, low, high), heights[side], f"steps {side}")
        below.end_group()
    below.text((_LEFT + _RIGHT) / 2, 398, "promised probability", "axis", anchor="middle")
    below.text(12, 345, "rows", "axis", anchor="middle", turned=True)
    plot.include(below)
    return plot.svg(
        f"Reliability diagram. Before calibration {found.before.n_outside} of {len(found.before.weight)} bins are "
        "off the "
        f"diagonal beyond their interval, after it {found.after.n_outside} of {len(found.after.weight)}."
    )


def ratios(found: Reliability) -> str:
    """PCOC per bin: the same bins, with the eye on the error."""
    log = found.logarithmic
    curves = [found.before, found.after]
    low, high = around(np.concatenate([one.predicted for one in curves]), logarithmic=log)
    x = Scale(max(low, 0.0), min(high, 1.0), _LEFT, _RIGHT, log)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = [(one.predicted / one.observed, one.predicted / one.high, one.predicted / one.low) for one in curves]
    known = np.concatenate([np.concatenate(one) for one in values])
    known = known[np.isfinite(known) & (known > 0.0)]
    bottom, top = around(np.clip(known, 0.2, 5.0), logarithmic=True, must_hold=(0.9, 1.1))
    plot = Plot(x, Scale(bottom, top, 372, 12, True), _WIDTH, 410)
    plot.axes("promised probability", "predicted ÷ observed", _tick, lambda one: f"{one:g}", x_ticks=5)
    plot.line([x.low, x.high], [1.0, 1.0], "ideal")
    for side, curve, (middle, least, most) in zip(SIDES, curves, values, strict=True):
        plot.group(side)
        plot.whiskers(curve.predicted, least, np.where(np.isinf(most), top, most), f"whisker {side}")
        plot.line(curve.predicted, middle, f"line {side}")
        plot.dots(curve.predicted, middle, f"dot {side}", _tips(curve, side))
        plot.end_group()
    return plot.svg("Predicted over observed positives per bin, before and after calibration; 1 is ideal.")


_COLUMNS = (
    Column("Side", numeric=False),
    Column("Promised"),
    Column("Observed"),
    Column("Interval", numeric=False),
    Column("Predicted ÷ observed"),
    Column("Rows"),
    Column("Positives"),
)


def _rows(found: Reliability) -> list[Row]:
    rows = []
    for side, curve in (("before", found.before), ("after", found.after)):
        for place in range(len(curve.weight)):
            promised, seen = float(curve.predicted[place]), float(curve.observed[place])
            rows.append(
                Row(
                    (
                        words(side),
                        number(percent(promised)),
                        number(percent(seen)),
                        words(f"{percent(float(curve.low[place]))} … {percent(float(curve.high[place]))}"),
                        number(ratio(promised / seen if seen else float("nan"))),
                        number(count(float(curve.weight[place]))),
                        number(count(float(curve.positives[place]))),
                    )
                )
            )
    return rows


def _tips(curve: ReliabilityCurve, side: Side) -> list[str]:
    return [
        f"{side}: promised {percent(float(p))}, observed {percent(float(y))} "
        f"({percent(float(a))} … {percent(float(b))}), {count(float(n))} rows"
        for p, y, a, b, n in zip(curve.predicted, curve.observed, curve.low, curve.high, curve.weight, strict=True)
    ]


def _tick(rate: float) -> str:
    return percent(rate, 2)
