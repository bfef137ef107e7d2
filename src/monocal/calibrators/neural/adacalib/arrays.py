"""AdaCalib's broken lines on numpy arrays."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats, sigmoid

PROBABILITY_FLOOR = 1e-6


@final
class LinesCurve:
    """One broken line of the probability per value of a field, on numpy arrays.

    Never decreases where heights do not: inside a segment a non-negative number is multiplied and added, and the
    result is capped by the segment's right end.

    Arguments:
        places: Increasing positions per value, from 0 to 1; infinite after the last knot.
        heights: The line's values there.

    Example:
        >>> curve = LinesCurve(np.array([[0.0, 0.2, 1.0]]), np.array([[0.02, 0.15, 0.6]]))
        >>> sigmoid(curve(np.log([0.1 / 0.9, 1.0]), np.array([0, 7]))).round(5).tolist()
        [0.085, 0.31875]
    """

    def __init__(self, places: Floats, heights: Floats) -> None:
        self.places, self.heights = places, heights

    def __call__(self, logits: Floats, values: NDArray[np.int32]) -> Floats:
        value = np.where(values < self.places.shape[0], values, 0)
        at = sigmoid(logits)
        segment = np.sum(at[:, None] >= self.places[value, 1:-1], axis=1)
        left, right = self.places[value, segment], self.places[value, segment + 1]
        low, high = self.heights[value, segment], self.heights[value, segment + 1]
        inside = low + np.clip((at - left) / (right - left), 0.0, 1.0) * (high - low)
        mixed = np.where(high >= low, np.minimum(inside, high), inside)
        p = np.clip(mixed, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
        result: Floats = np.log(p) - np.log1p(-p)
        return result
