"""The reliability diagram as a figure."""

from __future__ import annotations

from typing import Any

from monocal.findings.reliability import Reliability
from monocal.report.figures.canvas import COLOURS, empty_figure, strokes


def reliability_figure(found: Reliability) -> Any:
    """Draws observed rates against predictions with their intervals, and the ratio of both beside it.

    Arguments:
        found: `build_report(...).task().reliability`.

    Example:
        >>> import monocal
        >>> from monocal.report import build_report
        >>> log = monocal.simulate_log(4_000).table()
        >>> model = monocal.fit(log.slice(0, 2_000), method="platt", score="pctr", label="click")
        >>> figure = reliability_figure(build_report(model, log.slice(2_000), n_bootstrap=20).task().reliability)
        >>> [axes.get_ylabel() for axes in figure.axes]
        ['observed rate', 'predicted / observed']
    """
    figure, (diagram, ratio) = empty_figure(2)
    ends = []
    for side, curve in found.curves.items():
        diagram.fill_between(curve.predicted, curve.low, curve.high, color=COLOURS[side], alpha=0.15, linewidth=0)
        diagram.plot(curve.predicted, curve.observed, label=side, **strokes(side))
        ends += [float(curve.predicted.min()), float(curve.predicted.max())]
        ratio.plot(curve.predicted, curve.pcoc, label=side, **strokes(side))
        ratio.vlines(curve.predicted, *curve.pcoc_interval, COLOURS[side], alpha=0.5)
    diagram.plot([min(ends), max(ends)], [min(ends), max(ends)], color="0.5", linewidth=1, linestyle=":")
    ratio.axhline(1.0, color="0.5", linewidth=1)
    if found.logarithmic:
        diagram.set(xscale="log", yscale="log")
        ratio.set(xscale="log")
    ratio.set(yscale="log")
    diagram.set(xlabel="predicted probability", ylabel="observed rate")
    ratio.set(xlabel="predicted probability", ylabel="predicted / observed")
    diagram.legend(frameon=False, loc="upper left")
    return figure
