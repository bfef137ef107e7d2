"""Field by field, and value by value of the worst pairs."""

from __future__ import annotations

import math

import numpy as np

from monocal.core.numbers import count, percent, ratio, shorten
from monocal.findings.before_after import SIDES, Side
from monocal.findings.heat_map import Grid, HeatMap
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import details, figure, pair, section
from monocal.report.svg.plot import Plot
from monocal.report.svg.scale import Scale

_WIDTH, _LABELS, _TOP, _MARGIN = 440, 100, 70, 36
_ERROR_STEPS = (0.02, 0.05, 0.1, 0.2, 0.4)
_RATIO_STEPS = (1.05, 1.15, 1.35, 1.75)


def heat_maps(task: TaskReport, identifier: str) -> str:
    """The section of heat maps; nothing when there are no two fields to cross."""
    found = task.heat_map
    if found is None:
        return ""
    lead = (
        "Two fields together can have errors that neither shows alone. Each square is the typical error of their "
        "joint values beyond chance, in percent of the prediction; the diagonal is one field alone. A point means "
        "that no error is distinguishable from noise."
    )
    grids = [
        pair(
            *(
                figure(
                    value_grid(grid, side),
                    f"{grid.first} × {grid.second}, {side}",
                    legend=False,
                    note="PCOC; a dot marks cells that are significantly off, the others are shrunk."
                    if side == "before"
                    else "",
                )
                for side in SIDES
            )
        )
        for grid in found.grids
    ]
    more = details("More pairs", *grids[1:]) if len(grids) > 1 else ""
    first = f"<h3>The worst pair, value by value</h3>{_key()}{grids[0]}" if grids else ""
    return section(
        identifier,
        "Field × field",
        lead,
        pair(*(figure(overview(found, side), side.capitalize(), legend=False) for side in SIDES)),
        first,
        more,
    )


def overview(found: HeatMap, side: Side) -> str:
    """Fields against fields: typical error beyond chance."""
    matrix = found.overview[side]
    n = len(found.fields)
    size = (_WIDTH - _LABELS - _MARGIN) / n
    height = min(size, 44.0)
    plot = _board(found.fields, found.fields, size, height, round(_TOP + height * n + 8))
    for i in range(n):
        for j in range(n):
            error, least = float(matrix.errors[i, j]), float(matrix.resolution[i, j])
            if not math.isfinite(error):
                continue
            names = found.fields[i] if i == j else f"{found.fields[i]} × {found.fields[j]}"
            visible = bool(matrix.visible[i, j])
            style = f"e{sum(error >= step for step in _ERROR_STEPS)}" if visible else "e0"
            words = f"{100 * error:.0f}" if visible else "·"
            meaning = f"{percent(error, 2)} beyond chance" if visible else f"not visible; less than {percent(least, 2)}"
            _square(plot, i, j, size, height, style, words, f"{side}, {names}: {meaning}")
    largest = float(np.nanmax(matrix.errors, initial=0.0))
    return plot.svg(f"Typical error of joint field values {side} calibration; largest {percent(largest, 2)}.")


def value_grid(grid: Grid, side: Side) -> str:
    """Values of one field against values of another."""
    pcoc, flagged = grid.sides[side].pcoc, grid.sides[side].flagged
    m, n = pcoc.shape
    width, height = (_WIDTH - _LABELS - _MARGIN) / n, 26.0
    plot = _board(grid.first_values, grid.second_values, width, height, round(_TOP + height * m + 8))
    for i in range(m):
        for j in range(n):
            value = float(pcoc[i, j])
            if not math.isfinite(value):
                continue
            _square(
                plot,
                i,
                j,
                width,
                height,
                _ratio_class(value),
                f"{value:.2f}" if value < 9.995 else f"{value:.0f}",
                f"{shorten(grid.first_values[i], 24)}, {shorten(grid.second_values[j], 24)}: PCOC {ratio(value)}, "
                f"{count(float(grid.weight[i, j]))} rows, {count(float(grid.observed[i, j]))} positives"
                f"{', significantly off' if flagged[i, j] else ''}",
                dot=bool(flagged[i, j]),
            )
    return plot.svg(
        f"PCOC of {grid.first} by {grid.second} {side} calibration; {int(flagged.sum())} of {m * n} cells are "
        "significantly off."
    )


def _board(down: tuple[str, ...], across: tuple[str, ...], width: float, height: float, total: int) -> Plot:
    plot = Plot(Scale(0, 1, 0, 1), Scale(0, 1, 0, 1), _WIDTH, total)
    for i, name in enumerate(down):
        plot.text(_LABELS - 6, _TOP + (i + 0.5) * height, shorten(name, 14), "tick", anchor="end", middle=True)
    for j, name in enumerate(across):
        plot.text(_LABELS + (j + 0.5) * width + 4, _TOP - 6, shorten(name, 12), "tick", slanted=True)
    return plot


def _square(
    plot: Plot,
    i: int,
    j: int,
    width: float,
    height: float,
    style: str,
    words: str,
    hint: str,
    dot: bool = False,
) -> None:
    left, top = _LABELS + j * width, _TOP + i * height
    plot.box(left + 0.5, top + 0.5, width - 1, height - 1, f"cell {style}", hint)
    if width >= 24:
        plot.text(left + width / 2, top + height / 2, words, f"celltext {style}", anchor="middle", middle=True)
    if dot:
        plot.spot(left + width - 4.5, top + 4.5, 2.0, f"celldot {style}")


def _key() -> str:
    steps = ["over 1.75", "1.35", "1.15", "1.05", "≈ 1", "0.95", "0.87", "0.74", "under 0.57"]
    styles = ["p4", "p3", "p2", "p1", "z", "m1", "m2", "m3", "m4"]
    items = "".join(
        f'<li><span class="chip {style}"></span>{words}</li>' for style, words in zip(styles, steps, strict=True)
    )
    return f'<ul class="keylist" aria-label="Colours of PCOC, from over- to under-prediction">{items}</ul>'


def _ratio_class(value: float) -> str:
    step = sum(max(value, 1.0 / value) >= bound for bound in _RATIO_STEPS)
    if step == 0:
        return "z"
    return f"{'p' if value > 1.0 else 'm'}{step}"
