"""A broken line with trained values, on numpy arrays."""

from __future__ import annotations

from typing import final

import numpy as np

from monocal.core.spaces import Floats
from monocal.neural.arrays.context_table import Weights

LINE_EPSILON = 1e-4
"""Added to knot distances, as the released code of UMC's authors does."""


@final
class BrokenLineCurve:
    """Interpolates values at knots, constant outside; see `modules.broken_line.BrokenLine`.

    Arguments:
        weights: `line.knots` and `line.values`.
        epsilon: Added to knot distances.
        hard_monotone: Uses the running maximum of the values and caps a segment by its right end, so that the line
            never decreases.

    Example:
        >>> ends = np.array([-1.0, 1.0])
        >>> line = BrokenLineCurve({"line.knots": ends, "line.values": ends}, epsilon=0.0, hard_monotone=True)
        >>> line(np.array([-3.0, 0.5])).tolist()
        [-1.0, 0.5]
    """

    def __init__(self, weights: Weights, epsilon: float, hard_monotone: bool) -> None:
        self.knots: Floats = weights["line.knots"].astype(np.float64)
        values = weights["line.values"].astype(np.float64)
        self.values: Floats = np.maximum.accumulate(values) if hard_monotone else values
        self.slopes: Floats = np.diff(self.values) / (np.diff(self.knots) + epsilon)
        self.hard_monotone = hard_monotone

    def __call__(self, logits: Floats) -> Floats:
        t = np.clip(logits, self.knots[0], self.knots[-1])
        segment = np.clip(np.searchsorted(self.knots, t, side="right") - 1, 0, self.knots.shape[0] - 2)
        inside = self.values[segment] + (t - self.knots[segment]) * self.slopes[segment]
        inside = np.where(t >= self.knots[-1], self.values[-1], inside)
        if self.hard_monotone:
            inside = np.minimum(inside, self.values[segment + 1])
        result: Floats = inside
        return result
