"""FAC's map on numpy arrays: a broken line plus a network of the features."""

from __future__ import annotations

from typing import Any

from monocal.core.spaces import Floats
from monocal.neural.arrays.broken_line import LINE_EPSILON, BrokenLineCurve
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.fitted_map import Curve
from monocal.neural.arrays.layers import Layers


def shifted_line(weights: Weights, hard_monotone: bool) -> Curve:
    """Returns η(z) + g(x) as a function of logits and context rows.

    Arguments:
        weights: `line.*`, and `shift.*` unless the map ignores features.
        hard_monotone: Uses the running maximum of the line's values.
    """
    line = BrokenLineCurve(weights, LINE_EPSILON, hard_monotone)
    if "shift.layers.0.weight" not in weights:
        return lambda logits, _context: line(logits)
    shift = Layers.of(weights, "shift")

    def shifted(logits: Floats, context: Any) -> Floats:
        return line(logits) + shift(context)[:, 0]

    return shifted
