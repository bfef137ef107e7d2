"""An empty figure in the house style; matplotlib is imported only here, and only when a figure is made."""

from __future__ import annotations

from typing import Any

COLOURS = {"before": "#c05200", "after": "#0068a8"}
"""Told apart by the colour-blind; before is also dashed and hollow, after solid and filled."""

LINES = ("#0068a8", "#c05200", "#00806a", "#a3468f", "#8a6d00", "#66717e")


def empty_figure(n_columns: int = 1, width: float = 5.2, height: float = 4.2) -> tuple[Any, Any]:
    """Returns a figure and its axes, an array if there are several. No window is opened and no global state touched."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('figures need matplotlib. Hint: pip install "monocal[report]"') from error
    figure = Figure(figsize=(width * n_columns, height), layout="constrained")
    axes = figure.subplots(1, n_columns)
    for panel in [axes] if n_columns == 1 else axes:
        panel.grid(alpha=0.3, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def strokes(side: str) -> dict[str, Any]:
    """How a line with markers is drawn for one side."""
    colour = COLOURS[side]
    if side == "before":
        return {"color": colour, "linestyle": "--", "marker": "o", "markerfacecolor": "white", "markersize": 4}
    return {"color": colour, "linestyle": "-", "marker": "o", "markersize": 4}
