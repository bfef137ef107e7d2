"""Compiled loops that replace a matrix product by look-ups where a field has few values.

Many rows share the few values of a small field, so its share of the first layer is computed once per value and then
only looked up and added; in the backward pass gradients are added up per value before any product is taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monocal.kernels.compiled import compiled

Floats32 = NDArray[np.float32]
Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]


@compiled()
def add_folded(
    rows: Ints32, fields: Ints64, shifts: Ints64, tables: Floats32, bias: Floats32, hidden: Floats32
) -> None:
    """Sets every row of `hidden` to the bias plus the looked-up shares of its small fields.

    Arguments:
        rows: Row numbers in the store, `(n, F)`.
        fields: The small fields.
        shifts: Added to a row number of the field to get its row in `tables`.
        tables: One hidden-layer share per value.
        bias: The layer's bias.
        hidden: The result, `(n, width)`.
    """
    width = bias.shape[0]
    for row in range(rows.shape[0]):
        for k in range(width):
            hidden[row, k] = bias[k]
        for place in range(fields.shape[0]):
            value = rows[row, fields[place]] + shifts[place]
            for k in range(width):
                hidden[row, k] += tables[value, k]


@compiled()
def sum_by_value(rows: Ints32, fields: Ints64, shifts: Ints64, gradients: Floats32, totals: Floats32) -> None:
    """Sets `totals` to the sum of the gradients of all rows that have a value, value by value.

    Arguments:
        rows: As in `add_folded`, like the next two.
        fields: The small fields.
        shifts: Row shifts.
        gradients: The loss's gradient with respect to the hidden layer, `(n, width)`.
        totals: The result, `(values, width)`.
    """
    width = gradients.shape[1]
    totals[:, :] = np.float32(0.0)
    for row in range(rows.shape[0]):
        for place in range(fields.shape[0]):
            value = rows[row, fields[place]] + shifts[place]
            for k in range(width):
                totals[value, k] += gradients[row, k]
