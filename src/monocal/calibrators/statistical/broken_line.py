"""The broken line that isotonic regression and its smoothed relative predict with."""

from __future__ import annotations

import numpy as np

from monocal.core.spaces import Floats


def interpolate(x: Floats, knots: Floats, values: Floats) -> Floats:
    """Returns the line through rising `values` at rising `knots`, constant outside; it never falls, to the last bit.

    Inside a piece the line is a rounded product and a rounded sum, which keep order; at its right end it may be
    rounded beyond the next value, which is therefore its bound.

    Example:
        >>> interpolate(np.array([0.0, 0.3, 0.9]), np.array([0.2, 0.4]), np.array([0.1, 0.5])).round(3).tolist()
        [0.1, 0.3, 0.5]
    """
    following = np.minimum(np.searchsorted(knots, x, side="right"), len(knots) - 1)
    return np.minimum(np.interp(x, knots, values), values[following])
