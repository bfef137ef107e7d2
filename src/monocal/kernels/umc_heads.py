"""Builds the compiled predictor of several UMC maps with the same hidden layers from their saved arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.kernels.folded_heads import FoldedHeads, Head
from monocal.kernels.folded_net import DEFAULT_TABLE_BYTES, Layer, affordable, fold
from monocal.kernels.integral_walk import LANES
from monocal.kernels.umc_predictor import State, layers_of, padded


def heads_predictor(
    states: Sequence[State],
    *,
    field_sizes: Sequence[int],
    vectors: NDArray[Any],
    wide_shifts: NDArray[Any] | None,
    own: Sequence[Mapping[str, Any]],
) -> FoldedHeads:
    """Returns what scores rows of ids for all tasks at once.

    Arguments:
        states: Each map's arrays under the names of UMC's torch module; hidden layers are those of the first.
        field_sizes: How many ids each field has.
        vectors: The context encoder's table `(sum(field_sizes), d)`.
        wide_shifts: Shifts per value and task `(sum(field_sizes), tasks)`; None if there is no wide part.
        own: Per task what `Head` calls `line`, `share`, `constant` and `shift`.
    """
    lasts, heads, first = [], [], 0
    for task, (state, part) in enumerate(zip(states, own, strict=True)):
        last = layers_of(state, "trunk")[-1]
        lasts.append(padded(last))
        knots = np.asarray(state["curve.knots"], np.float64)
        heads.append(
            Head(
                knots=knots,
                first=first,
                rescaling=len(last.biases) > len(knots),
                wide=-1 if wide_shifts is None else task,
                beta=float(np.asarray(state["beta"]).reshape(())),
                **part,
            )
        )
        first += len(lasts[-1].biases)
    joined = Layer(
        np.concatenate([layer.weights for layer in lasts]), np.concatenate([layer.biases for layer in lasts])
    )
    layers = [*layers_of(states[0], "trunk")[:-1], joined]
    return FoldedHeads(fold(field_sizes, vectors, layers, own_columns=wide_shifts), heads)


def sums_alike(sizes: Sequence[Sequence[int]], states: Sequence[State], *, wide: bool) -> bool:
    """Says whether the joint predictor adds in the order of each task's own: folds the same fields.

    Arguments:
        sizes: How many ids each field has, for every task.
        states: Each map's arrays.
        wide: Whether there are shifts per value.
    """
    n_first = -(-len(states[0]["trunk.layers.0.bias"]) // LANES) * LANES
    n_own = len(states) if wide else 0

    def folded(fields: Any, n_skip: int) -> list[bool]:
        n_columns = n_first + -(-n_skip // LANES) * LANES
        found: list[bool] = affordable(np.asarray(fields, np.int64), n_columns, DEFAULT_TABLE_BYTES).tolist()
        return found

    together = folded(np.max(sizes, axis=0), n_own)
    return all(folded(counts, int(wide)) == together for counts in sizes)
