"""How often rows count, without a column of ones where each counts once."""

from __future__ import annotations

import numpy as np

from monocal.core.spaces import Floats


def weights_of(weights: Floats | None, rows: slice, n_rows: int) -> Floats:
    """Returns how often some of the rows count; once each if there are no weights.

    Arguments:
        weights: One per row; None means once.
        rows: Which of them.
        n_rows: How many there are in all.

    Example:
        >>> weights_of(None, slice(2, 9), 5).tolist(), weights_of(np.array([3.0, 1.0]), slice(0, 1), 2).tolist()
        ([1.0, 1.0, 1.0], [3.0])
    """
    return np.ones(len(range(*rows.indices(n_rows)))) if weights is None else weights[rows]
