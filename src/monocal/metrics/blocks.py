"""Sums per (cell, block): the table whose product with block counts is a bootstrap replicate."""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.core.spaces import Floats
from monocal.metrics.forecast import IdColumn
from monocal.metrics.replay import Blocks

_SMALL_TABLE = 1 << 16


def block_sums(
    cells: IdColumn | None,
    n_cells: int,
    amounts: Floats | float,
    weights: Floats | None,
    blocks: Blocks,
    n_blocks: int,
) -> Any:
    """Returns a matrix `(n_cells, n_blocks)` of summed `weights · amounts`.

    It is dense while that takes no more entries than there are rows; otherwise it is a scipy sparse array, which holds
    only the pairs that occur.

    Example:
        >>> table = block_sums(np.array([0, 1, 1]), 2, 1.0, None, np.array([0, 0, 1]), 2)
        >>> table.tolist(), (table @ np.array([2.0, 0.0])).tolist()
        ([[1.0, 0.0], [1.0, 1.0]], [2.0, 2.0])
    """
    column = np.full(blocks.shape[0], amounts) if isinstance(amounts, float) else amounts
    if weights is not None:
        column = column * weights
    if cells is None:
        return np.bincount(blocks, weights=column, minlength=n_blocks)[None, :]
    if n_cells * n_blocks <= max(_SMALL_TABLE, blocks.shape[0]):
        pairs = cells.astype(np.int64) * n_blocks + blocks
        return np.bincount(pairs, weights=column, minlength=n_cells * n_blocks).reshape(n_cells, n_blocks)
    from scipy.sparse import coo_array

    used = np.flatnonzero(column)
    table = coo_array((column[used], (cells[used], blocks[used])), shape=(n_cells, n_blocks)).tocsr()
    table.sum_duplicates()
    return table
