"""Curves of a study: one metric against a number that the study varies, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, final

import numpy as np

_COLOURS = ("#0068a8", "#c05200", "#00806a", "#a3468f", "#8a6d00", "#66717e")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


@final
@dataclass(frozen=True)
class CurveSpec:
    """One figure of a study.

    Arguments:
        name: Of the file.
        title: Above the figure.
        x_label: Below it.
        points: Names of calibrators, or of data sets, with the number each stands for. With calibrators there is one
            line per data set; with data sets one line per calibrator.
        metrics: One panel each.
        logarithmic: Whether x is.
        logarithmic_y: Whether the metrics are.
    """

    name: str
    title: str
    x_label: str
    points: Mapping[str, float] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("log_loss",)
    logarithmic: bool = False
    logarithmic_y: bool = False


def draw_curve(spec: CurveSpec, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Returns the figure as SVG text, or None if no result belongs to it. Bars are 95 % intervals, or the spread."""
    key, line = _roles(spec, rows)
    found = [row for row in rows if row[key] in spec.points and row["metric"] in spec.metrics]
    if not found:
        return None
    figure, axes = _empty_figure(len(spec.metrics))
    for axis, metric in zip(axes, spec.metrics, strict=True):
        for index, name in enumerate(dict.fromkeys(row[line] for row in found)):
            _draw_line(axis, spec, [row for row in found if row[line] == name and row["metric"] == metric], key, index)
        axis.set_xlabel(spec.x_label)
        axis.set_ylabel(metric)
        if spec.logarithmic:
            axis.set_xscale("log")
            places = sorted(spec.points.values())
            axis.set_xticks(places, [f"{place:,g}" if place < 1e5 else f"{place / 1e6:g}M" for place in places])
            axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        if spec.logarithmic_y:
            axis.set_yscale("log")
    figure.suptitle(spec.title)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), frameon=False)
    return _svg(figure, spec.name)


def _empty_figure(n_columns: int) -> tuple[Any, list[Any]]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('figures of studies need matplotlib. Hint: pip install "monocal[bench]"') from error
    figure = Figure(figsize=(4.6 * n_columns, 3.6), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(1, n_columns)))
    for axis in axes:
        axis.grid(alpha=0.3, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _roles(spec: CurveSpec, rows: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    if any(row["data"] in spec.points for row in rows):
        return "data", "calibrator"
    return "calibrator", "data"


def _draw_line(axis: Any, spec: CurveSpec, rows: list[Mapping[str, Any]], key: str, index: int) -> None:
    names = sorted({row[key] for row in rows}, key=lambda name: spec.points[name])
    if not names:
        return
    groups = [[row for row in rows if row[key] == name] for name in names]
    x = [spec.points[name] for name in names]
    y = np.array([np.mean([row["value"] for row in group]) for group in groups])
    other = "calibrator" if key == "data" else "data"
    style = {"color": _COLOURS[index % len(_COLOURS)], "marker": _MARKS[index % len(_MARKS)], "markersize": 4.5}
    if all(row.get("low") is not None for row in rows):
        low = y - [np.mean([row["low"] for row in group]) for group in groups]
        high = [np.mean([row["high"] for row in group]) for group in groups] - y
        axis.errorbar(x, y, [np.maximum(low, 0), np.maximum(high, 0)], label=rows[0][other], capsize=2, **style)
    else:
        axis.plot(x, y, label=rows[0][other], **style)


def _svg(figure: Any, salt: str) -> str:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
