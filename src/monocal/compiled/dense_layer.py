"""An affine layer whose result for a row depends on that row alone, to the last bit.

Matrix products of a BLAS round differently for different positions in a batch. Here every output is one sum over the
inputs in their order, each product and each addition rounded on its own, whatever the neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.jit import compiled, scalar
from monocal.compiled.lanes import N_AT_ONCE, add_rounded_to_8, add_rounded_to_32, add_rounded_to_64, add_rounded_to_72

Floats32 = NDArray[np.float32]

_BLOCK = 32
"""Rows that share one reading of the weights."""

_LANES = 8


@scalar
def _add_tile(rows: Any, first: int, n_rows: int, matrix: Any, out: Any, to: int, j: int, n_columns: int) -> None:
    """Adds the products of all inputs to `n_columns` outputs from `j` on, of rows from `to` on."""
    n_in, n_out = matrix.shape
    for k in range(0, n_in, N_AT_ONCE):
        k_end = min(k + N_AT_ONCE, n_in)
        n = (k_end - k) // _LANES * _LANES
        place = k * n_out + j
        for row in range(n_rows):
            if n > 0:
                inputs, outputs = (first + row) * n_in + k, (to + row) * n_out + j
                if n_columns == 72:
                    add_rounded_to_72(rows, inputs, out, outputs, n, matrix, place, n_out)
                elif n_columns == 64:
                    add_rounded_to_64(rows, inputs, out, outputs, n, matrix, place, n_out)
                elif n_columns == 32:
                    add_rounded_to_32(rows, inputs, out, outputs, n, matrix, place, n_out)
                else:
                    add_rounded_to_8(rows, inputs, out, outputs, n, matrix, place, n_out)
            for i in range(k + n, k_end):  # inputs that do not fill a vector
                value = rows[first + row, i]
                if value != 0.0:
                    for c in range(j, j + n_columns):
                        out[to + row, c] += value * matrix[i, c]


@scalar
def _columns_at_once(n_left: int) -> int:
    """As many outputs as registers hold; one vector more where it would be left over, as it waits for each addition."""
    n_vectors = n_left // _LANES
    if n_vectors >= 9 and n_vectors % 4 == 1:
        return 72
    if n_vectors >= 8:
        return 64
    if n_vectors >= 4:
        return 32
    return _LANES


@compiled()
def add_products(rows: Any, matrix: Any, out: Any) -> None:
    """Adds `rows @ matrix` to `out`; inputs that are 0 are skipped, as most are after a ReLU.

    64 inputs × 64 outputs of the weights serve a block of rows while they are in the fastest cache, and a row's outputs
    stay in registers.

    Arguments:
        rows: `(n, n_in)`, float32 and C-contiguous like the others.
        matrix: `(n_in, n_out)`.
        out: `(n, n_out)`, the biases to begin with.
    """
    n_rows = rows.shape[0]
    n_in, n_out = matrix.shape
    n_whole = n_out // _LANES * _LANES
    # outputs that do not fill a vector are taken through one beside zeros
    n_rest = n_out - n_whole
    narrow, room = np.zeros((n_in, _LANES), np.float32), np.zeros((_BLOCK, _LANES), np.float32)
    for k in range(n_in):
        for j in range(n_rest):
            narrow[k, j] = matrix[k, n_whole + j]
    for first in range(0, n_rows, _BLOCK):
        n_here = min(_BLOCK, n_rows - first)
        j = 0
        while j < n_whole:
            n_columns = _columns_at_once(n_whole - j)
            _add_tile(rows, first, n_here, matrix, out, first, j, n_columns)
            j += n_columns
        if n_rest > 0:
            for row in range(n_here):
                for j in range(n_rest):
                    room[row, j] = out[first + row, n_whole + j]
            _add_tile(rows, first, n_here, narrow, room, 0, 0, _LANES)
            for row in range(n_here):
                for j in range(n_rest):
                    out[first + row, n_whole + j] = room[row, j]
