"""Fields of numbers in the wide part: a smooth, continuous shift with a few coefficients behind its many ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.numeric_ids import FIRST_ID, NULL_ID, STEPS, n_numeric_ids
from monocal.core.spaces import Floats


@lru_cache(maxsize=32)
def smooth_basis(n_knots: int) -> Floats:
    r"""Returns `(ids, coefficients)`: what each coefficient adds at every id of a field with so many knots.

    Between knots a shift is a straight line, so it is its values β at the knots. With D the second differences,

    .. math:: \beta = s\,l + D^{+} r, \qquad \tfrac{\lambda}{2}\big(s^2 + \|r\|^2\big)

    is a straight line l with slope s plus what bends, and the penalty is that of the second differences beside a
    weaker one of the slope. Coefficients are those along the singular vectors of :math:`D^{+}`: with knots at
    quantiles they are nearly independent, which the solver and the estimate of λ rely on. Line and bends are scaled
    to a mean square of 1 each, so that λ is 1 over the variance of the shift, as in other fields.

    The first coefficient is that of the unseen value and adds nothing; the second is the shift of a null.

    References:
        Eilers, Marx. Flexible smoothing with B-splines and penalties. 1996.

    Arguments:
        n_knots: How many knots the field has.

    Example:
        Four knots have a line and two bends, none of which moves the mean over the knots.

        >>> basis = smooth_basis(4)
        >>> basis.shape, np.abs(basis[FIRST_ID::STEPS, 2:].mean(axis=0)).max().round(9).item()
        ((6147, 5), 0.0)
    """
    basis = np.zeros((n_numeric_ids(n_knots), 2 + max(n_knots - 1, 0)))
    basis[NULL_ID, 1] = 1.0
    if n_knots > 1:
        line = np.arange(n_knots) - (n_knots - 1) / 2.0
        at_knots = (line / np.sqrt(np.mean(line**2)))[:, None]
        if n_knots > 2:
            curved, sizes, _ = np.linalg.svd(np.linalg.pinv(np.diff(np.eye(n_knots), n=2, axis=0)), full_matrices=False)
            curved = curved * sizes
            at_knots = np.column_stack([at_knots, curved / np.sqrt(np.sum(curved**2) / n_knots)])
        places = np.arange(basis.shape[0] - FIRST_ID) / STEPS
        left = np.minimum(places.astype(np.int64), n_knots - 2)
        share = (places - left)[:, None]
        basis[FIRST_ID:, 2:] = (1.0 - share) * at_knots[left] + share * at_knots[left + 1]
    basis.flags.writeable = False
    return basis


@final
class FieldCoefficients:
    """Shifts by id from coefficients, field after field; those of a field of categories are the shifts themselves.

    Arguments:
        sizes: How many ids each field has.
        n_knots: Knots per field, 0 for categories.

    Example:
        >>> fields = FieldCoefficients(np.array([3, n_numeric_ids(2)]), [0, 2])
        >>> shifts = fields.shifts(np.array([0.0, 0.5, -0.5, 0.0, 0.1, 2.0]))
        >>> shifts[:5].tolist(), shifts[5].item(), shifts[-1].item(), fields.offsets.tolist()
        ([0.0, 0.5, -0.5, 0.0, 0.1], -2.0, 2.0, [0, 3, 6])
        >>> fields.coefficients(shifts).round(9).tolist()
        [0.0, 0.5, -0.5, 0.0, 0.1, 2.0]
    """

    def __init__(self, sizes: NDArray[np.int64], n_knots: Sequence[int]) -> None:
        self._bases = [smooth_basis(n) if n else None for n in n_knots]
        counts = [size if basis is None else basis.shape[1] for size, basis in zip(sizes, self._bases, strict=True)]
        self.sizes: NDArray[np.int64] = np.array(counts, dtype=np.int64)
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.sizes)])
        self._ids: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes)])

    def shifts(self, coefficients: Floats) -> Floats:
        """Returns the shift of every id."""
        return self._each(coefficients, self.offsets, lambda basis, values: basis @ values)

    def coefficients(self, shifts: Floats) -> Floats:
        """Returns the coefficients of shifts that have some."""
        return self._each(shifts, self._ids, _coefficients_of)

    def gradient(self, by_id: Floats) -> Floats:
        """Returns the gradient by coefficients, from the one by ids."""
        return self._each(by_id, self._ids, lambda basis, values: basis.T @ values)

    def curvature(self, by_id: Floats) -> Floats:
        """Returns the diagonal of the second derivative by coefficients, from the one by ids."""
        return self._each(by_id, self._ids, lambda basis, values: (basis**2).T @ values)

    def common(self, ids: NDArray[np.int32]) -> Floats:
        """Returns what every row's fields add when all coefficients of one field are 1, `(n, F)`."""
        columns = [
            (ids[:, f] > 0).astype(np.float64) if basis is None else basis[:, 1:].sum(axis=1)[ids[:, f]]
            for f, basis in enumerate(self._bases)
        ]
        return np.column_stack(columns)

    def _each(self, values: Floats, offsets: NDArray[np.int64], turn: Callable[[Floats, Floats], Floats]) -> Floats:
        parts = []
        for f, basis in enumerate(self._bases):
            here = values[offsets[f] : offsets[f + 1]]
            parts.append(here if basis is None else turn(basis, here))
        return np.concatenate(parts)


def coefficients_of(shifts: Floats, curvature: Floats, n_knots: int) -> tuple[Floats, Floats]:
    """Returns the coefficients of one field of numbers and their curvature, from those of its ids."""
    basis = smooth_basis(n_knots)
    return _coefficients_of(basis, shifts), (basis**2).T @ curvature


def _coefficients_of(basis: Floats, shifts: Floats) -> Floats:
    knots = np.r_[0, NULL_ID, FIRST_ID : basis.shape[0] : STEPS]
    return np.asarray(np.linalg.lstsq(basis[knots], shifts[knots], rcond=None)[0], dtype=np.float64)
