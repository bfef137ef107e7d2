"""PCOC of the values of one field as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.findings.fields import FieldResult
from monocal.report.figures.canvas import COLOURS, empty_figure


def pcoc_by_value_figure(found: FieldResult, n_values: int = 20) -> Any:
    """Draws PCOC with its interval for the most frequent values of a field, before and after.

    Arguments:
        found: One of `build_report(...).task().fields`.
        n_values: How many values.

    Example:
        >>> import monocal
        >>> from monocal.report import build_report
        >>> log = monocal.simulate_log(4_000).table()
        >>> model = monocal.fit(log.slice(0, 2_000), method="platt", score="pctr", label="click", fields=["device"])
        >>> figure = pcoc_by_value_figure(build_report(model, log.slice(2_000), n_bootstrap=20).task().fields[0])
        >>> figure.axes[0].get_title()
        'device'
    """
    n = min(n_values, len(found.values))
    figure, axes = empty_figure(height=1.2 + 0.28 * n)
    heights = np.arange(n)
    for shift, (side, errors) in zip((-0.16, 0.16), found.errors.items(), strict=True):
        low, high = errors.low[:n], errors.high[:n]
        top = float(np.nanmax(np.where(np.isfinite(high), high, np.nan), initial=1.0))
        axes.hlines(heights + shift, low, np.where(np.isinf(high), top, high), COLOURS[side])
        filled = COLOURS[side] if side == "after" else "white"
        axes.plot(errors.cells.pcoc[:n], heights + shift, "o", color=COLOURS[side], markerfacecolor=filled, label=side)
    axes.axvline(1.0, color="0.5", linewidth=1)
    axes.set(xscale="log", xlabel="predicted / observed", title=found.name)
    axes.set_yticks(heights, [value[:30] for value in found.values[:n]])
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="upper right")
    return figure
