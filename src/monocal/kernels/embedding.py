"""Compiled loops of a factorisation machine: gather embeddings, and update only the rows a batch has touched.

A store holds one row per field value: `n_dimensions` embedding numbers and one linear weight per task, followed
(while training) by Adam's first and second moments of the same numbers. One row is one place in memory, so a rare
value costs one cache miss and not six.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monocal.kernels.compiled import FUSED_STEPS, compiled

Floats32 = NDArray[np.float32]
Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]


class EmbeddingKernels(NamedTuple):
    """The two loops, compiled for one embedding length so that the compiler can unroll it."""

    gather: Any
    update: Any


@lru_cache(maxsize=8)
def embedding_kernels(n_dimensions: int) -> EmbeddingKernels:
    r"""Returns the loops for embeddings of a given length.

    `gather(features, sizes, offsets, columns, store, rows, inputs, sums, pairs, linear)` looks up every field of
    every row. It writes the store's row numbers, the embeddings (those of field f from column `columns[f]` on, or not
    at all if that is negative), their sum over fields :math:`S`, the second-order term
    :math:`\frac12\sum_d (S_d^2 - \sum_f e_{fd}^2)`, and the sum of linear weights per task. An id outside a field
    counts as 0.

    `update(field, column, shift, rows, input_gradients, value_gradients, sums, pair_gradients, linear_gradients,
    store, slots, gradients, linears, touched, step, decay1, decay2, floor, penalty)` sums the gradients of one field's
    values over the batch and takes one Adam step on the rows that occurred; all other rows keep their bits. What
    comes through the network is read row by row from `column` on, or, if that is negative, value by value from
    `value_gradients` at the store's row number plus `shift`. Fields own disjoint rows, so different fields may be
    updated by different threads. `slots` must be −1 everywhere and is left so.

    Arguments:
        n_dimensions: Length of an embedding.
    """
    n_dims = n_dimensions

    # Contraction may fuse a multiplication and an addition; reordering sums would not be reproducible.
    @compiled(freedom=FUSED_STEPS)
    def gather(
        features: Ints32,
        sizes: Ints64,
        offsets: Ints64,
        columns: Ints64,
        store: Floats32,
        rows: Ints32,
        inputs: Floats32,
        sums: Floats32,
        pairs: Floats32,
        linear: Floats32,
    ) -> None:
        zero = np.float32(0.0)
        n_tasks = linear.shape[1]
        total = np.empty(n_dims, np.float32)
        squares = np.empty(n_dims, np.float32)
        for row in range(features.shape[0]):
            for k in range(n_dims):
                total[k] = zero
                squares[k] = zero
            for task in range(n_tasks):
                linear[row, task] = zero
            for field in range(features.shape[1]):
                value = np.int64(features[row, field])
                if value < 0 or value >= sizes[field]:
                    value = np.int64(0)
                place = offsets[field] + value
                rows[row, field] = place
                column = columns[field]
                if column >= 0:
                    for k in range(n_dims):
                        inputs[row, column + k] = store[place, k]
                for k in range(n_dims):
                    number = store[place, k]
                    total[k] += number
                    squares[k] += number * number
                for task in range(n_tasks):
                    linear[row, task] += store[place, n_dims + task]
            pair = zero
            for k in range(n_dims):
                pair += total[k] * total[k] - squares[k]
                sums[row, k] = total[k]
            pairs[row] = np.float32(0.5) * pair

    @compiled(freedom=FUSED_STEPS)
    def update(
        field: int,
        column: int,
        shift: int,
        rows: Ints32,
        input_gradients: Floats32,
        value_gradients: Floats32,
        sums: Floats32,
        pair_gradients: Floats32,
        linear_gradients: Floats32,
        store: Floats32,
        slots: Ints32,
        gradients: Floats32,
        linears: Floats32,
        touched: Ints32,
        step: np.float32,
        decay1: np.float32,
        decay2: np.float32,
        floor: np.float32,
        penalty: np.float32,
    ) -> None:
        one = np.float32(1.0)
        n_tasks = linear_gradients.shape[1]
        width = n_dims + n_tasks
        n_touched = 0
        for row in range(rows.shape[0]):
            place = rows[row, field]
            slot = slots[place]
            if slot < 0:
                slot = n_touched
                n_touched += 1
                slots[place] = slot
                touched[slot] = place
                for k in range(n_dims):
                    gradients[slot, k] = value_gradients[place + shift, k] if column < 0 else np.float32(0.0)
                for task in range(n_tasks):
                    linears[slot, task] = np.float32(0.0)
            pair = pair_gradients[row]
            for k in range(n_dims):
                gradients[slot, k] += pair * (sums[row, k] - store[place, k])
            if column >= 0:
                for k in range(n_dims):
                    gradients[slot, k] += input_gradients[row, column + k]
            for task in range(n_tasks):
                linears[slot, task] += linear_gradients[row, task]
        for slot in range(n_touched):
            place = touched[slot]
            slots[place] = -1
            for k in range(n_dims):
                gradient = gradients[slot, k] + penalty * store[place, k]
                moment1 = decay1 * store[place, width + k] + (one - decay1) * gradient
                moment2 = decay2 * store[place, 2 * width + k] + (one - decay2) * gradient * gradient
                store[place, width + k] = moment1
                store[place, 2 * width + k] = moment2
                store[place, k] -= step * moment1 / (np.sqrt(moment2) + floor)
            for task in range(n_tasks):
                k = n_dims + task
                gradient = linears[slot, task] + penalty * store[place, k]
                moment1 = decay1 * store[place, width + k] + (one - decay1) * gradient
                moment2 = decay2 * store[place, 2 * width + k] + (one - decay2) * gradient * gradient
                store[place, width + k] = moment1
                store[place, 2 * width + k] = moment2
                store[place, k] -= step * moment1 / (np.sqrt(moment2) + floor)

    return EmbeddingKernels(gather, update)
