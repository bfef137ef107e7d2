"""The loss of a logit with one shift per field value, and its gradient: by numpy, compiled, or by several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import Block
from monocal.core.fields import FieldSchema
from monocal.core.scores import Floats, log_losses, sigmoid

COMPILED_FROM_CELLS = 500_000
"""Rows times fields from which the compiled loop, if numba is there, is worth loading."""

BLOCKS_AT_ONCE = 8
"""Blocks of rows whose derivatives are held at a time: 16 MiB, and few enough waits of threads for each other."""

DoAll = Callable[[Sequence[Callable[[], Any]]], list[Any]]


def loop_for(n_cells: float, by_numpy: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Returns a loop over rows, compiled if there is enough to do.

    Arguments:
        n_cells: Rows times fields.
        by_numpy: The loop for few rows, and for machines without numba.
        module: The one that holds the same function, compiled.
    """
    if n_cells < COMPILED_FROM_CELLS or find_spec("numba") is None:
        return by_numpy
    compiled: Callable[..., Any] = getattr(import_module(module), by_numpy.__name__)
    return compiled


def add_loss_and_gradient(
    logits: Floats,
    labels: Floats,
    weights: Floats,
    features: NDArray[np.int32],
    columns: NDArray[np.int64],
    offsets: NDArray[np.int64],
    theta: Floats,
    gradient: NDArray[Any],
) -> float:
    """What `monocal.compiled.wide` does, by numpy."""
    n_shifts = theta.shape[0] - 2
    schema = FieldSchema(np.diff(offsets), (0,) * len(columns), columns)
    z = schema.add_shifts(theta[n_shifts] * logits + theta[n_shifts + 1], features, theta[:n_shifts])
    residual = weights * (sigmoid(z) - labels)
    for field, column in enumerate(columns):
        here = slice(offsets[field], offsets[field + 1])
        gradient[here] += np.bincount(features[:, column], residual, here.stop - here.start)
    gradient[n_shifts] += float(residual @ logits)
    gradient[n_shifts + 1] += float(residual.sum())
    return float(np.sum(weights * log_losses(z, labels)))


def add_in_threads(
    blocks: Sequence[Block],
    schema: FieldSchema,
    theta: Floats,
    gradient: Floats,
    loss: float,
    do_all: DoAll,
    n_threads: int,
) -> float:
    """Returns `loss` plus that of all blocks and adds their gradient, with the bits of one thread.

    A block's sums are those of one thread, and blocks are added in their order. A shift's derivative is added up by
    the one thread that has its field, row after row. So no sum changes its order, whatever the number of threads.

    Arguments:
        blocks: The rows.
        schema: Their fields.
        theta: All shifts, then slope and intercept.
        gradient: As long as `theta`.
        loss: What the loss is before.
        do_all: Does jobs at once.
        n_threads: Among how many the fields are divided.
    """
    from monocal.compiled.wide import add_residuals, losses_and_residuals

    edges = np.linspace(0, len(schema), min(n_threads, len(schema)) + 1).round().astype(np.int64)
    for begin in range(0, len(blocks), BLOCKS_AT_ONCE):
        some = [(block.z, block.y, block.w, block.ids) for block in blocks[begin : begin + BLOCKS_AT_ONCE]]
        residuals = [np.empty(len(rows[0])) for rows in some]
        sums = do_all(
            [
                partial(losses_and_residuals, *rows, schema.places, schema.offsets, theta, residual)
                for rows, residual in zip(some, residuals, strict=True)
            ]
        )

        def add_fields(first: int, end: int, some: Any = some, residuals: Any = residuals) -> None:
            for (*_, ids), residual in zip(some, residuals, strict=True):
                add_residuals(residual, ids, schema.places, schema.offsets, first, end, gradient)

        do_all([partial(add_fields, first, end) for first, end in pairwise(edges)])
        for block_loss, d_slope, d_intercept in sums:
            loss += block_loss
            gradient[-2] += d_slope
            gradient[-1] += d_intercept
    return loss
