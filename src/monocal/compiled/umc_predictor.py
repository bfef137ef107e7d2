"""Builds the compiled predictor of a UMC model from its saved arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.exact_integral import pack_integrand
from monocal.compiled.folded_concat import FoldedUmc
from monocal.compiled.folded_knots import FoldedKnots
from monocal.compiled.folded_net import DEFAULT_TABLE_BYTES, Layer, fold
from monocal.compiled.predictor import FoldedPredictor

State = Mapping[str, NDArray[Any]]


def umc_predictor(
    state: State,
    *,
    field_sizes: Sequence[int],
    integrand: Literal["concat", "knots"],
    vectors: NDArray[Any] | None = None,
    wide_shifts: NDArray[Any] | None = None,
    intercept: float = 0.0,
    max_table_bytes: int = DEFAULT_TABLE_BYTES,
) -> FoldedPredictor:
    """Returns what scores rows of ids exactly as the torch modules do, without torch.

    Arguments:
        state: The map's arrays under the names of UMC's torch module, as numpy arrays.
        field_sizes: How many ids each field has; empty if there are no features at all.
        integrand: The form the map was built with.
        vectors: The context encoder's table `(sum(field_sizes), d)`; None if the map ignores features.
        wide_shifts: One shift per value `(sum(field_sizes),)` or `(…, 1)`; None if there is no wide part.
        intercept: A constant logit shift, for example of a recent-intercept refit.
        max_table_bytes: Budget of the folded table.
    """
    n_values = int(sum(field_sizes))
    own = None if wide_shifts is None else np.asarray(wide_shifts, np.float64).reshape(n_values, 1)
    table = np.zeros((n_values, 0)) if vectors is None else np.asarray(vectors)

    n_shape = state["curve.knots"].shape[0] if integrand == "knots" else state["curve.slopes"].shape[0]
    layers, skip, n_outputs = _network(state, integrand, n_shape, table.shape[1] * len(field_sizes))
    net = fold(field_sizes, table, layers, skip=skip, own_columns=own, max_table_bytes=max_table_bytes)
    rescaling = n_outputs > (0 if skip is not None else n_shape)
    common: dict[str, Any] = {
        "beta": float(np.asarray(state["beta"]).reshape(())),
        "intercept": intercept,
        "rescaling": rescaling,
        "wide": own is not None,
    }
    if integrand == "knots":
        return FoldedKnots(net, np.asarray(state["curve.knots"]), **common)
    packed = pack_integrand(
        state["curve.slopes"],
        state["curve.second.weight"],
        state["curve.second.bias"],
        state["curve.third.weight"][0],
        float(state["curve.third.bias"][0]),
    )
    return FoldedUmc(net, packed, **common)


def _network(state: State, integrand: str, n_shape: int, n_inputs: int) -> tuple[list[Layer], Layer | None, int]:
    """Returns the network's layers, the layer that skips it (the integrand's offsets) and the number of outputs."""
    if "constants" in state:
        constants = np.asarray(state["constants"])
        skip = _constant(constants[:n_shape], n_inputs) if integrand != "knots" else None
        outputs = constants if skip is None else constants[n_shape:]
        return [_constant(outputs, n_inputs)] if len(outputs) else [], skip, len(outputs)
    if integrand == "concat":
        layers = layers_of(state, "rescaler")
        return layers, _layer(state, "offsets"), 2 if layers else 0
    layers = layers_of(state, "trunk")
    return layers, None, layers[-1].biases.shape[0]


def _constant(values: NDArray[Any], n_inputs: int) -> Layer:
    return Layer(np.zeros((len(values), n_inputs)), values)


def layers_of(state: State, name: str) -> list[Layer]:
    """Returns the layers of one of a map's networks."""
    n_layers = sum(key.startswith(f"{name}.layers.") and key.endswith(".weight") for key in state)
    return [_layer(state, f"{name}.layers.{i}") for i in range(n_layers)]


def _layer(state: State, name: str) -> Layer:
    return Layer(np.asarray(state[f"{name}.weight"]), np.asarray(state[f"{name}.bias"]))
