"""First layers on field ids in training: number the distinct values of a batch, sum their rows, scatter gradients.

A batch of 16384 rows and 21 fields has 344,064 ids but some ten thousand distinct values. A layer on the joined field
vectors is therefore computed once per distinct value, and a row of the batch is a sum of F such results. The way back
is the mirror image: a row's gradient is added to its F values, and the small matrix products follow once per value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.jit import MOST_COLUMNS, REORDERED_SUMS, Ids, Matrix, Vector, compiled


class BatchValues(NamedTuple):
    """The distinct values of a batch, field after field.

    Attributes:
        slots: Which distinct value each id is, `(n, F)`.
        rows: The row of the joined table of every distinct value, `(m,)`.
        starts: Where each field's values begin among them, `(F + 1,)`.
    """

    slots: NDArray[np.int32]
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]


def number_values(table_rows: NDArray[np.int64], n_table: int) -> BatchValues:
    """Numbers the distinct values of every field.

    Arguments:
        table_rows: The row of the joined table of every value, `(n, F)`; fields share none.
        n_table: Rows of that table.

    Example:
        >>> batch = number_values(np.array([[2, 3], [1, 4], [2, 3]]), 5)
        >>> batch.slots.tolist(), batch.rows.tolist(), batch.starts.tolist()
        ([[0, 2], [1, 3], [0, 2]], [2, 1, 3, 4], [0, 2, 4])
    """
    slots = np.empty(table_rows.shape, np.int32)
    rows = np.empty(min(n_table, table_rows.size), np.int64)
    starts = np.zeros(table_rows.shape[1] + 1, np.int64)
    seen = np.zeros(n_table, np.int32)  # 1 + slot; zero pages cost nothing until they are touched
    n_values = _number(table_rows, seen, slots, rows, starts)
    return BatchValues(slots, rows[:n_values], starts)


@compiled()
def _number(table_rows: Any, seen: Any, slots: Any, rows: Ids, starts: Ids) -> int:
    n_rows, n_fields = table_rows.shape
    n = 0
    for f in range(n_fields):
        for r in range(n_rows):
            row = table_rows[r, f]
            if seen[row] == 0:
                rows[n] = row
                n += 1
                seen[row] = n
            slots[r, f] = seen[row] - 1
        starts[f + 1] = n
    return n


@compiled(freedom=REORDERED_SUMS)
def sum_rows(slots: Any, table: Matrix, biases: Vector, out: Matrix) -> None:
    """Writes `biases + Σ_f table[slots[r, f]]` into every row r of `out`."""
    n_rows, n_fields = slots.shape
    n_columns = min(table.shape[1], MOST_COLUMNS)
    for r in range(n_rows):
        for c in range(n_columns):
            out[r, c] = biases[c]
        f = 0
        while f + 4 <= n_fields:
            t0, t1, t2, t3 = slots[r, f], slots[r, f + 1], slots[r, f + 2], slots[r, f + 3]
            for c in range(n_columns):
                out[r, c] += (table[t0, c] + table[t1, c]) + (table[t2, c] + table[t3, c])
            f += 4
        while f < n_fields:
            t0 = slots[r, f]
            for c in range(n_columns):
                out[r, c] += table[t0, c]
            f += 1


@compiled()
def scatter_rows(slots: Any, gradients: Matrix, out: Matrix) -> None:
    """Adds every row of `gradients` to the rows of `out` that its ids stand for."""
    n_rows, n_fields = slots.shape
    n_columns = min(gradients.shape[1], MOST_COLUMNS)
    for r in range(n_rows):
        for f in range(n_fields):
            t = slots[r, f]
            for c in range(n_columns):
                out[t, c] += gradients[r, c]
