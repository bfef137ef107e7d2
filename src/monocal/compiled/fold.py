"""Networks of categorical fields whose first layer is folded into one table row per field value.

A first layer on joined field vectors is a sum over fields, and each summand depends on one id only. So it is
computed beforehand for every id: at prediction time the layer is F row additions and no matrix product. Columns of
the table that skip the network ride along: the integrand's offsets, and the wide shift of every value.

Fields too large for the table keep their vectors and are multiplied per row.

Every row is summed in the same order whatever batch it is in, so its result does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.jit import LANES, MOST_COLUMNS

CACHE_LINE = 64


def aligned(values: NDArray[Any]) -> NDArray[np.float32]:
    """Copies values into a float32 array on a cache line boundary.

    A vector that straddles two lines takes two loads; rows of a multiple of 8 numbers then never do. Worth a fifth of
    a layer's time.

    Example:
        >>> aligned(np.ones((3, 8))).ctypes.data % 64
        0
    """
    result = aligned_room(values.shape)
    result[...] = values
    return result


def aligned_room(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Returns a float32 array on a cache line boundary whose values are yet to be written."""
    n_bytes = 4 * int(np.prod(shape))
    room = np.empty(n_bytes + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    result: NDArray[np.float32] = room[start : start + n_bytes].view(np.float32).reshape(shape)
    return result


State = Mapping[str, NDArray[Any]]
"""What a map learned, by name."""

Floats32 = NDArray[np.float32]
Ids = NDArray[np.int64]

DEFAULT_TABLE_BYTES = 1 << 28
"""256 MiB of folded rows."""

_FOLDED_AT_ONCE = 1 << 16

N_FIELDS, N_SKIP, N_COLUMNS, N_FOLDED, N_VECTOR, N_LAYERS, N_WIDEST, FIRST_FIELD = range(8)
"""Where the plan, one int64 array that tells the compiled loops all sizes, keeps what. Four numbers per field follow
(column, ids, first row in its table, first row of its projection), then four per layer (inputs, outputs, padded
outputs, first weight). A layer with at most 8 outputs keeps one row of weights per output and has 0 padded outputs;
a wider one keeps one row per input, so that inputs which are 0 can be skipped. Biases are the last column or row."""


@final
@dataclass(frozen=True)
class FoldedNet:
    """A network as the compiled loops want it.

    Attributes:
        plan: All sizes and places.
        table: One row per value of the folded fields.
        vectors: One row per value of the large fields: its vector and its own columns.
        projections: What each number of a large field's vector adds to the columns.
        weights: The first layer's biases, one per column, then the later layers, flattened.
        n_skip: How many columns skip the network.
        n_outputs: How many numbers the network returns.
    """

    plan: Ids
    table: Floats32
    vectors: Floats32
    projections: Floats32
    weights: Floats32
    n_skip: int
    n_outputs: int

    @property
    def n_fields(self) -> int:
        return int(self.plan[N_FIELDS])

    @property
    def n_bytes(self) -> int:
        return sum(part.nbytes for part in (self.table, self.vectors, self.projections, self.weights))

    def arrays(self, *places: int) -> tuple[Ids, Floats32, Floats32, Floats32, Floats32]:
        """Returns everything as compiled loops take it, with numbers of their own at the end of the plan."""
        plan = np.concatenate([self.plan, np.array(places, np.int64)])
        return plan, self.table, self.vectors, self.projections, self.weights


@final
@dataclass(frozen=True)
class Layer:
    """An affine layer: weights `(out, in)` and biases `(out,)`."""

    weights: NDArray[Any]
    biases: NDArray[Any]


def fold(
    field_sizes: Sequence[int],
    vectors: NDArray[Any],
    layers: Sequence[Layer],
    *,
    skip: Layer | None = None,
    own_columns: NDArray[Any] | None = None,
    max_table_bytes: int = DEFAULT_TABLE_BYTES,
) -> FoldedNet:
    """Folds the first layer of a network of field vectors into a table.

    Arguments:
        field_sizes: How many ids each field has, id 0 (unseen) included.
        vectors: The fields' vectors `(sum(field_sizes), d)`, one field after the other.
        layers: The network, ReLU between its layers; may be empty if only skipping columns are wanted.
        skip: An affine layer on the same input whose result leaves unchanged, beside the network's output.
        own_columns: More such columns `(sum(field_sizes), m)` whose values are summed over the fields.
        max_table_bytes: Budget of the table. Fields are folded from the smallest on; the rest stay vectors.
    """
    sizes = np.asarray(field_sizes, np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n_fields, n_vector = len(sizes), vectors.shape[1]
    n_values = int(starts[-1])
    columns = _first_layer(n_fields, n_vector, layers, skip, own_columns, n_values)
    folded = affordable(sizes, columns.n_columns, max_table_bytes)
    n_full = n_vector + columns.own.shape[1]
    # written in place and in blocks: the table is most of a large model, and lists of its parts would be so again
    table = aligned_room((int(sizes[folded].sum()), columns.n_columns))
    large = aligned_room((int(sizes[~folded].sum()), n_full))
    projections: list[Floats32] = []
    fields: list[int] = []
    n_table, n_large = 0, 0
    for f in np.argsort(~folded, kind="stable").tolist():
        size = int(sizes[f])
        projection = columns.of_field(f)
        fields += [f, size, n_table if folded[f] else n_large, len(projections) * n_full]
        for first in range(0, size, _FOLDED_AT_ONCE):
            n_rows = min(_FOLDED_AT_ONCE, size - first)
            values = slice(starts[f] + first, starts[f] + first + n_rows)
            full = np.concatenate([vectors[values], columns.own[values]], axis=1)
            if folded[f]:
                table[n_table + first : n_table + first + n_rows] = full.astype(np.float64) @ projection
            else:
                large[n_large + first : n_large + first + n_rows] = full
        if folded[f]:
            n_table += size
        else:
            projections.append(projection.astype(np.float32))
            n_large += size
    weights, layer_plan, widest = _later_layers(layers, columns.biases)
    if max(widest, columns.n_columns) > MOST_COLUMNS:
        raise ValueError(f"layers may have up to {MOST_COLUMNS} columns, got {max(widest, columns.n_columns)}")
    head = [n_fields, columns.n_skip_padded, columns.n_columns, int(folded.sum()), n_full, len(layer_plan) // 4]
    plan = np.asarray([*head, max(widest, columns.n_columns), *fields, *layer_plan], np.int64)
    return FoldedNet(
        plan=plan,
        table=table,
        vectors=large,
        projections=aligned(np.concatenate(projections) if projections else np.zeros((0, columns.n_columns))),
        weights=aligned(weights),
        n_skip=columns.n_skip,
        n_outputs=layers[-1].weights.shape[0] if layers else 0,
    )


@dataclass(frozen=True)
class _Columns:
    """Everything that is linear in the field vectors, side by side: skipping columns, then the first layer."""

    weights: NDArray[np.float64]
    biases: Floats32
    own: NDArray[np.float64]
    n_vector: int
    n_skip: int
    n_skip_padded: int

    @property
    def n_columns(self) -> int:
        return int(self.biases.shape[0])

    def of_field(self, field: int) -> NDArray[np.float64]:
        """Returns `(d + m, columns)`: what the field's vector and its own columns add."""
        mine = self.weights[:, field * self.n_vector : (field + 1) * self.n_vector].T
        n_own = self.own.shape[1]
        own = np.zeros((n_own, self.n_columns))
        own[np.arange(n_own), self.n_skip - n_own + np.arange(n_own)] = 1.0
        return np.concatenate([mine, own])


def _first_layer(
    n_fields: int,
    n_vector: int,
    layers: Sequence[Layer],
    skip: Layer | None,
    own_columns: NDArray[Any] | None,
    n_values: int,
) -> _Columns:
    n_inputs = n_fields * n_vector
    own = np.zeros((n_values, 0)) if own_columns is None else np.asarray(own_columns, np.float64)
    n_affine = 0 if skip is None else skip.weights.shape[0]
    n_skip = n_affine + own.shape[1]
    n_skip_padded = -(-n_skip // LANES) * LANES
    n_first = layers[0].weights.shape[0] if layers else 0
    n_columns = n_skip_padded + -(-n_first // LANES) * LANES
    weights, biases = np.zeros((n_columns, n_inputs)), np.zeros(n_columns, np.float32)
    for layer, place in ((skip, 0), (layers[0] if layers else None, n_skip_padded)):
        if layer is not None:
            rows = slice(place, place + layer.weights.shape[0])
            weights[rows], biases[rows] = layer.weights, layer.biases
    return _Columns(weights, biases, own, n_vector, n_skip, n_skip_padded)


def affordable(sizes: Ids, n_columns: int, max_table_bytes: int) -> NDArray[np.bool_]:
    """Says which fields are folded, from the smallest on, within a budget.

    Example:
        >>> affordable(np.array([1_000, 10, 50]), 128, 100 * 128 * 4).tolist()
        [False, True, True]
    """
    order = np.argsort(sizes, kind="stable")
    folded = np.zeros(len(sizes), np.bool_)
    folded[order] = np.cumsum(sizes[order]) * n_columns * 4 <= max_table_bytes
    return folded


def _later_layers(layers: Sequence[Layer], start: Floats32) -> tuple[Floats32, list[int], int]:
    parts: list[Floats32] = [start]
    plan: list[int] = []
    place, widest = start.size, 0
    for layer in layers[1:]:
        n_out, n_in = layer.weights.shape
        both = np.concatenate([layer.weights, layer.biases[:, None]], axis=1)
        n_padded = -(-n_out // LANES) * LANES if n_out > LANES else 0
        block = np.zeros((n_in + 1, n_padded), np.float32) if n_padded else both.astype(np.float32)
        if n_padded:
            block[:, :n_out] = both.T
        parts.append(np.pad(block.ravel(), (0, -block.size % LANES)))
        plan += [n_in, n_out, n_padded, place]
        place += parts[-1].size
        widest = max(widest, n_padded, n_out)
    return np.concatenate(parts), plan, widest


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
