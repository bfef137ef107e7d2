"""PCOC over time as a figure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from monocal.findings.drift import Drift
from monocal.report.figures.canvas import COLOURS, empty_figure, strokes


def drift_figure(found: Drift) -> Any:
    """Draws PCOC per time window with its interval, before and after.

    Arguments:
        found: `build_report(...).task().drift`.

    Example:
        >>> import monocal
        >>> from monocal.report import build_report
        >>> log = monocal.simulate_log(4_000).table()
        >>> model = monocal.fit(log.slice(0, 2_000), method="platt", score="pctr", label="click")
        >>> figure = drift_figure(build_report(model, log.slice(2_000), time="timestamp", n_bootstrap=20).task().drift)
        >>> figure.axes[0].get_xlabel()
        'Windows of 12 hours (UTC)'
    """
    figure, axes = empty_figure(width=7.0)
    starts: Any = found.windows.starts
    if found.windows.calendar:
        starts = [datetime.fromtimestamp(float(start), UTC) for start in starts]
    for side, line in found.lines.items():
        high = np.where(np.isinf(line.high), np.nan, line.high)
        axes.fill_between(starts, line.low, high, color=COLOURS[side], alpha=0.15, linewidth=0)
        axes.plot(starts, line.cells.pcoc, label=side, **strokes(side))
    axes.axhline(1.0, color="0.5", linewidth=1)
    axes.set(yscale="log", xlabel=found.windows.words, ylabel="predicted / observed")
    axes.legend(frameon=False, loc="upper right")
    axes.tick_params(axis="x", rotation=30)
    return figure
