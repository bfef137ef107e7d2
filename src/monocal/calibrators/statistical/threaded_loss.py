"""The loss of wide fits and its gradient, by several threads, with the bits of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCKS_AT_ONCE = 8
"""Blocks of rows whose derivatives are held at a time: 16 MiB, and few enough waits of threads for each other."""

Block = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Logits, labels, weights and field ids of consecutive rows."""


def add_in_threads(
    blocks: Sequence[Block],
    columns: NDArray[np.int64],
    offsets: NDArray[np.int64],
    theta: NDArray[np.float64],
    gradient: NDArray[np.float64],
    loss: float,
    do_all: Callable[[Sequence[Callable[[], Any]]], list[Any]],
    n_threads: int,
) -> float:
    """Returns `loss` plus that of all blocks and adds their gradient.

    A block's sums are those of one thread, and blocks are added in their order. A shift's derivative is added up by
    the one thread that has its field, row after row. So no sum changes its order, whatever the number of threads.

    Arguments:
        blocks: The rows.
        columns: Which of the fields have shifts.
        offsets: Where each field's shifts start.
        theta: All shifts, then slope and intercept.
        gradient: As long as `theta`.
        loss: What the loss is before.
        do_all: Does jobs at once.
        n_threads: Among how many the fields are divided.
    """
    from monocal.compiled.wide import add_residuals, losses_and_residuals

    n_fields = len(offsets) - 1
    edges = np.linspace(0, n_fields, min(n_threads, n_fields) + 1).round().astype(np.int64)
    for begin in range(0, len(blocks), BLOCKS_AT_ONCE):
        some = [(z, y, w, np.ascontiguousarray(ids)) for z, y, w, ids in blocks[begin : begin + BLOCKS_AT_ONCE]]
        residuals = [np.empty(len(block[0])) for block in some]
        sums = do_all(
            [
                partial(losses_and_residuals, *block, columns, offsets, theta, residual)
                for block, residual in zip(some, residuals, strict=True)
            ]
        )
        do_all(
            [
                partial(_add_fields, add_residuals, some, residuals, columns, offsets, first, end, gradient)
                for first, end in pairwise(edges)
            ]
        )
        for block_loss, d_slope, d_intercept in sums:
            loss += block_loss
            gradient[-2] += d_slope
            gradient[-1] += d_intercept
    return loss


def _add_fields(
    add_residuals: Callable[..., None],
    blocks: Sequence[Block],
    residuals: Sequence[NDArray[np.float64]],
    columns: NDArray[np.int64],
    offsets: NDArray[np.int64],
    first: int,
    end: int,
    gradient: NDArray[np.float64],
) -> None:
    for (*_, features), residual in zip(blocks, residuals, strict=True):
        add_residuals(residual, features, columns, offsets, first, end, gradient)
