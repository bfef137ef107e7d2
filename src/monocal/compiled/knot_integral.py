"""The exact integral of a broken line through positive heights at knots, for one row."""

from __future__ import annotations

import math
from typing import Any

from monocal.compiled.jit import scalar


@scalar
def height(raw: float) -> float:
    """Returns 1 + ELU(raw) as e^min(raw, 0) + max(raw, 0), positive for every raw value above -745."""
    return math.exp(min(raw, 0.0)) + max(raw, 0.0)


@scalar
def between(left: float, right: float, h0: float, h1: float, u0: float, u1: float, t: float) -> float:
    """Integrates the line from h0 to h1 up to t, given the integral at both ends.

    From the end with the lower height: then only non-negative numbers are multiplied and added to a growing (or
    subtracted with a shrinking) distance, so that rounding cannot break the order.
    """
    slope = (h1 - h0) / (2.0 * (right - left))
    if h1 >= h0:
        rise = t - left
        return min(u0 + rise * (h0 + rise * slope), u1)
    fall = right - t
    return max(u1 - fall * (h1 - fall * slope), u0)


@scalar
def integrate_knots(t: float, knots: Any, n_knots: int, raw: Any, row: int) -> Any:
    """Integrates from the middle knot to t the broken line whose raw heights are in `raw[row]`.

    Only the heights between the middle and t are needed. Partial sums are taken outwards from the middle, the same
    for every t.
    """
    j = (n_knots - 1) // 2
    u = knots[j]
    h = height(float(raw[row, j]))
    if t >= knots[j]:
        while j + 1 < n_knots:
            h_next = height(float(raw[row, j + 1]))
            u_next = u + (knots[j + 1] - knots[j]) * (h + h_next) * 0.5
            if t < knots[j + 1]:
                return between(knots[j], knots[j + 1], h, h_next, u, u_next, t)
            u, h = u_next, h_next
            j += 1
        return u + (t - knots[j]) * h
    while j > 0:
        h_next = height(float(raw[row, j - 1]))
        u_next = u - (knots[j] - knots[j - 1]) * (h + h_next) * 0.5
        if t >= knots[j - 1]:
            return between(knots[j - 1], knots[j], h_next, h, u_next, u, t)
        u, h = u_next, h_next
        j -= 1
    return u - (knots[0] - t) * h
