"""An affine layer whose result for a row depends on that row alone, to the last bit.

Matrix products of a BLAS round differently for different positions in a batch. Here every output is one sum over the
inputs in their order, each product and each addition rounded on its own, whatever the neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.kernels.compiled import compiled

Floats32 = NDArray[np.float32]

_BLOCK = 8
"""Rows that share one reading of the weights."""


@compiled()
def add_products(rows: Any, matrix: Any, out: Any) -> None:
    """Adds `rows @ matrix` to `out`; inputs that are 0 are skipped, as most are after a ReLU.

    Arguments:
        rows: `(n, n_in)`.
        matrix: `(n_in, n_out)`.
        out: `(n, n_out)`, the biases to begin with.
    """
    n_rows, n_in = rows.shape
    n_out = matrix.shape[1]
    for first in range(0, n_rows, _BLOCK):
        last = min(first + _BLOCK, n_rows)
        for k in range(n_in):
            for row in range(first, last):
                value = rows[row, k]
                if value != 0.0:
                    for j in range(n_out):
                        out[row, j] += value * matrix[k, j]
