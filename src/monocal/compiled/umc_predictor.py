"""Builds the compiled predictor of a UMC model from its saved arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.folded_knots import FoldedKnots
from monocal.compiled.folded_net import DEFAULT_TABLE_BYTES, Layer, fold

State = Mapping[str, NDArray[Any]]


def umc_predictor(
    state: State,
    *,
    field_sizes: Sequence[int],
    vectors: NDArray[Any] | None = None,
    wide_shifts: NDArray[Any] | None = None,
    intercept: float = 0.0,
    max_table_bytes: int = DEFAULT_TABLE_BYTES,
) -> FoldedKnots:
    """Returns what scores rows of ids as `maps.umc` does on numpy arrays, to rounding.

    Arguments:
        state: What the map learned, by name.
        field_sizes: How many ids each field has; empty if there are no features at all.
        vectors: The context encoder's table `(sum(field_sizes), d)`; None if the map ignores features.
        wide_shifts: One shift per value `(sum(field_sizes),)` or `(…, 1)`; None if there is no wide part.
        intercept: A constant logit shift, for example of a recent-intercept refit.
        max_table_bytes: Budget of the folded table.
    """
    n_values, n_knots = int(sum(field_sizes)), state["knots"].shape[0]
    own = None if wide_shifts is None else np.asarray(wide_shifts, np.float64).reshape(n_values, 1)
    table = np.zeros((n_values, 0)) if vectors is None else np.asarray(vectors)
    if "constants" in state:
        layers = [constant_layer(state["constants"], table.shape[1] * len(field_sizes))]
    else:
        layers = layers_of(state, "trunk")
    net = fold(field_sizes, table, layers, own_columns=own, max_table_bytes=max_table_bytes)
    return FoldedKnots(
        net,
        np.asarray(state["knots"]),
        beta=float(np.asarray(state["beta"]).reshape(())),
        intercept=intercept,
        rescaling=layers[-1].biases.shape[0] > n_knots,
        wide=own is not None,
    )


def constant_layer(values: NDArray[Any], n_inputs: int) -> Layer:
    """Returns a layer that makes the same numbers of every row."""
    return Layer(np.zeros((len(values), n_inputs)), values)


def layers_of(state: State, name: str) -> list[Layer]:
    """Returns the layers of one of a map's networks."""
    n_layers = sum(key.startswith(f"{name}.layers.") and key.endswith(".weight") for key in state)
    return [layer_of(state, f"{name}.layers.{i}") for i in range(n_layers)]


def layer_of(state: State, name: str) -> Layer:
    """Returns one affine layer by name."""
    return Layer(np.asarray(state[f"{name}.weight"]), np.asarray(state[f"{name}.bias"]))
