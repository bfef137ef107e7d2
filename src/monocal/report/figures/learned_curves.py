"""The learned curves as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.findings.learned_curves import LearnedCurves
from monocal.report.figures.canvas import LINES, empty_figure

_DASHES = ("-", "--", ":", "-.", (0, (1, 2)), (0, (8, 2)))


def curves_figure(found: LearnedCurves) -> Any:
    """Draws the map from score to probability for typical and extreme feature rows.

    Arguments:
        found: `build_report(...).task().curves`.

    Example:
        >>> import monocal
        >>> from monocal.report import build_report
        >>> log = monocal.simulate_log(4_000).table()
        >>> model = monocal.fit(log.slice(0, 2_000), method="platt", score="pctr", label="click")
        >>> figure = curves_figure(build_report(model, log.slice(2_000), n_bootstrap=20).task().curves)
        >>> [line.get_label() for line in figure.axes[0].lines][0]
        'every row'
    """
    figure, axes = empty_figure()
    for place, curve in enumerate(found.curves):
        values = ", ".join(f"{field}={value[:20]}" for field, value in curve.values)
        name = f"{curve.name}: {values}" if values else curve.name
        axes.plot(found.scores, curve.calibrated, color=LINES[place], linestyle=_DASHES[place], label=name)
    axes.plot(found.scores, found.scores, color="0.5", linewidth=1, linestyle=":", label="score unchanged")
    axes.axvspan(*found.middle, color="0.5", alpha=0.1, linewidth=0)
    if float(np.median(found.scores)) < 0.2:
        axes.set(xscale="log", yscale="log")
    axes.set(xlabel="score", ylabel="calibrated probability")
    axes.legend(frameon=False, fontsize="small", loc="upper left")
    return figure
