"""A broken line of the ranker's logit that always rises: a start that bends, where one slope is too stiff."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.ops.numpy_ops import NUMPY
from monocal.ops.operations import Ops, Values

Base = Literal["auto", "slope", "curve"]
"""How the ranker's logit enters: with one slope, along a curve, or as later rows say."""


@final
class BaseCurve:
    r"""The line through rising `values` at rising `knots`, straight in between and beyond.

    .. math:: g(z) = v_k + s_k (z - t_k), \qquad t_k \le z < t_{k+1}, \quad s_k > 0

    It never falls, to the last bit: inside a piece a rounded difference, product and sum keep order, and a piece that
    is rounded beyond the next value is bound by it.

    Arguments:
        knots: t, rising, at least two.
        values: v, rising, one per knot.

    Example:
        >>> curve = BaseCurve(np.array([-1.0, 0.0, 1.0]), np.array([-2.0, 0.0, 0.5]))
        >>> curve(np.array([-2.0, -0.5, 0.5, 3.0])).tolist()
        [-4.0, -1.0, 0.25, 1.5]
    """

    def __init__(self, knots: Floats, values: Floats) -> None:
        self.knots, self.values = knots, values
        self.slopes: Floats = np.diff(values) / np.diff(knots)
        self._inner = knots[1:-1]
        self._bounds = np.append(values[1:-1], np.inf)

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Returns the curve whose knots and values a fit kept."""
        return cls(arrays["knots"], arrays["values"])

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Returns what a fit keeps."""
        return {"knots": self.knots, "values": self.values}

    def __call__(self, logits: Floats) -> Floats:
        found: Floats = self.map(NUMPY, logits)
        return found

    def map(self, ops: Ops, logits: Values) -> Values:
        """Returns the line at every logit, written over operations."""
        piece = ops.count_below(logits, self._inner, or_equal=True)
        beyond = logits - ops.look_up(self.knots[:-1], piece)
        line = beyond * ops.look_up(self.slopes, piece) + ops.look_up(self.values[:-1], piece)
        return ops.minimum(line, ops.look_up(self._bounds, piece))
