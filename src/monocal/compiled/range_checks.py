"""Whether the numbers of a request lie where they should, in one pass each."""

from __future__ import annotations

from typing import Any

from monocal.compiled.integral_walk import Vector
from monocal.compiled.jit import compiled


@compiled()
def all_within(values: Vector, low: float, high: float) -> bool:
    """Says whether `low ≤ value ≤ high` for all values; no for NaN.

    Example:
        >>> import numpy as np
        >>> all_within(np.array([0.0, 1.0]), 0.0, 1.0), all_within(np.array([0.5, np.nan]), 0.0, 1.0)
        (True, False)
    """
    n_outside = 0
    for place in range(values.shape[0]):
        n_outside += 1 - (int(low <= values[place]) & int(values[place] <= high))
    return n_outside == 0


@compiled()
def all_known(ids: Any, sizes: Any) -> bool:
    """Says whether `0 ≤ id < size` for all ids `(n, F)`, with one size per field.

    Example:
        >>> import numpy as np
        >>> sizes = np.array([3, 2], np.int32)
        >>> [all_known(np.array([[2, 1], ids], np.int32), sizes) for ids in ([0, 0], [0, 2], [-1, 0])]
        [True, False, False]
    """
    n_rows, n_fields = ids.shape
    n_strange = 0
    for row in range(n_rows):
        for field in range(n_fields):
            n_strange += int(ids[row, field] < 0) | int(ids[row, field] >= sizes[field])
    return n_strange == 0
