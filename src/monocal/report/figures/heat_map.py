"""Field by field as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.findings.heat_map import HeatMap
from monocal.report.figures.canvas import empty_figure


def heat_map_figure(found: HeatMap) -> Any:
    """Draws the typical error of joint field values beyond noise, before and after, in percent.

    Arguments:
        found: `build_report(...).task().heat_map`.

    Example:
        >>> import monocal
        >>> from monocal.report import build_report
        >>> log = monocal.simulate_log(4_000).table()
        >>> fields = ["device", "position"]
        >>> model = monocal.fit(log.slice(0, 2_000), method="platt", score="pctr", label="click", fields=fields)
        >>> figure = heat_map_figure(build_report(model, log.slice(2_000), n_bootstrap=20).task().heat_map)
        >>> [axes.get_title() for axes in figure.axes]
        ['before', 'after']
    """
    n = len(found.fields)
    figure, panels = empty_figure(2, width=1.6 + 0.6 * n, height=1.4 + 0.5 * n)
    for (side, matrix), axes in zip(found.overview.items(), panels, strict=True):
        errors, visible = 100.0 * matrix.errors, matrix.visible
        axes.imshow(np.where(visible, errors, 0.0), cmap="Oranges", vmin=0.0, vmax=60.0)
        for i, j in np.argwhere(np.isfinite(errors)):
            words = f"{errors[i, j]:.0f}" if visible[i, j] else "·"
            axes.text(j, i, words, ha="center", va="center", color="white" if errors[i, j] > 35.0 else "black")
        axes.set_xticks(range(n), found.fields, rotation=45, ha="right")
        axes.set_yticks(range(n), found.fields)
        axes.set(title=side)
        axes.grid(False)
    return figure
