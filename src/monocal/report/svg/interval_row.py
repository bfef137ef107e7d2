"""A drawing for one table row: both PCOC intervals on a common logarithmic axis around 1."""

from __future__ import annotations

import math

from monocal.report.svg.scale import Scale

WIDTH, HEIGHT = 150, 20
_REACH = 3.0
_AXIS = Scale(1.0 / _REACH, _REACH, 4, WIDTH - 4, logarithmic=True)


def interval_row(before: tuple[float, float, float], after: tuple[float, float, float]) -> str:
    """Draws `(value, low, high)` before above and after below; the middle is 1, the ends are ⅓ and 3.

    Example:
        >>> interval_row((1.5, 1.2, 1.9), (1.0, 0.9, 1.1)).count("<circle")
        2
    """
    return (
        f'<svg class="row" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f"{_mark(*before, 6, 'before')}{_mark(*after, 14, 'after')}</svg>"
    )


def _mark(value: float, low: float, high: float, y: int, style: str) -> str:
    stroke = ""
    if not (math.isnan(low) or math.isnan(high)):
        stroke = f'<path class="{style}" d="M{_AXIS.at(low):.0f} {y}H{_AXIS.at(high):.0f}"/>'
    if math.isnan(value):
        return stroke
    return f'{stroke}<circle class="{style}" cx="{_AXIS.at(value):.0f}" cy="{y}" r="3"/>'
