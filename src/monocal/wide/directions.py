"""Scaling of the wide part's parameters: each by its own curvature, and the few directions they share by theirs."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats

_SMALLEST_CURVATURE = 1e-9
_SMALLEST_EIGENVALUE = 1e-12


@final
class CommonDirections:
    r"""Variables in which the wide loss bends about equally in every direction.

    Scaled by the diagonal of its second derivative, the loss still bends thousands of times more in some directions
    than in others, and all of these are combinations of F + 2: all values of one field together, the slope, and the
    intercept. With D the diagonal scaling, Q the orthonormal common directions in scaled variables and A the exact
    curvature among them,

    .. math:: \theta = D^{-1}\big(I + Q\,(A^{-1/2} - I)\,Q^\top\big)\,s

    Common directions of different fields touch different parameters, so Q is one number per parameter and a product
    with it one pass over the table.

    Arguments:
        curvature: Diagonal of the loss's second derivative: all shifts, then slope and intercept. Parameters that
            the rows do not move have none.
        together: Second derivative along the common directions `(F + 2, F + 2)`: fields, slope, intercept.
        penalty: λ of every shift.
        offsets: Where each field's shifts start.
        slope_is_free: If false, no direction moves the slope.

    Example:
        Scaling there and back changes nothing.

        >>> scaling = CommonDirections(np.array([0.0, 4.0, 2.0, 9.0, 6.0]), np.array([[6.0, 1.0, 6.0],
        ...     [1.0, 9.0, 1.0], [6.0, 1.0, 6.0]]), np.ones(3), np.array([0, 3]), slope_is_free=True)
        >>> scaling.parameters(scaling.scaled(np.array([0.0, 0.5, -0.2, 1.0, -2.0]))).round(6).tolist()
        [0.0, 0.5, -0.2, 1.0, -2.0]
    """

    def __init__(
        self,
        curvature: Floats,
        together: Floats,
        penalty: Floats,
        offsets: NDArray[np.int64],
        *,
        slope_is_free: bool,
    ) -> None:
        n_shifts = int(offsets[-1])
        n_fields = offsets.shape[0] - 1
        self._starts = np.concatenate([offsets[:-1], [n_shifts, n_shifts + 1]])
        self._sizes = np.diff(np.concatenate([self._starts, [n_shifts + 2]]))
        diagonal = curvature.copy()
        diagonal[:n_shifts] += penalty
        self._root = np.sqrt(np.maximum(diagonal, _SMALLEST_CURVATURE))
        moved = curvature > 0.0
        moved[offsets[:-1]] = False
        moved[n_shifts] = moved[n_shifts] and slope_is_free
        direction = np.where(moved, self._root, 0.0)
        length = np.sqrt(np.add.reduceat(direction**2, self._starts))
        alive = length > 0.0
        length[~alive] = 1.0
        self._direction = direction / np.repeat(length, self._sizes)
        common_curvature = together.copy()
        own_penalty = (
            np.add.reduceat(np.where(moved[:n_shifts], penalty, 0.0), offsets[:-1]) if n_fields else np.zeros(0)
        )
        common_curvature[np.arange(n_fields), np.arange(n_fields)] += own_penalty
        common_curvature /= np.outer(length, length)
        common_curvature[~alive] = 0.0
        common_curvature[:, ~alive] = 0.0
        common_curvature[~alive, ~alive] = 1.0
        values, vectors = np.linalg.eigh(0.5 * (common_curvature + common_curvature.T))
        values = np.maximum(values, _SMALLEST_EIGENVALUE)
        self._shrink = (vectors * (values**-0.5 - 1.0)) @ vectors.T
        self._stretch = (vectors * (values**0.5 - 1.0)) @ vectors.T

    def parameters(self, scaled: Floats) -> Floats:
        """Returns θ, from the scaled variables s."""
        result = self._along(scaled, self._shrink)
        result /= self._root
        return result

    def scaled(self, parameters: Floats) -> Floats:
        """Returns s, from the parameters θ."""
        return self._along(parameters * self._root, self._stretch)

    def gradient(self, by_parameters: Floats) -> Floats:
        """Returns the gradient by s, from the one by θ."""
        return self._along(by_parameters / self._root, self._shrink)

    def _along(self, vector: Floats, change: Floats) -> Floats:
        result: Floats = self._direction * vector
        moved = change @ np.add.reduceat(result, self._starts)
        # in place and field by field: with millions of values every array of their length counts
        for start, size, amount in zip(self._starts, self._sizes, moved, strict=True):
            here = slice(start, start + size)
            np.multiply(self._direction[here], amount, out=result[here])
        result += vector
        return result
