"""Maps on numpy arrays: prediction without torch, the same number for the same row wherever it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.jit import numba_is_installed
from monocal.core.fields import FieldSchema
from monocal.core.scores import Floats, logit, round_logits, sigmoid
from monocal.ops.operations import OwnRows

Arrays = Mapping[str, NDArray[Any]]
Floats32 = NDArray[np.float32]

_BLOCK_ROWS = 256
"""Rows that stay in the cache while the plain numpy loop runs over the inputs."""

_SMALL_REQUEST = 512
"""Rows of which the shifts of all fields are looked up in one call."""


def add_products(rows: Floats32, matrix: Floats32, out: Floats32) -> None:
    """Adds `rows @ matrix` to `out`, one input after the other.

    A BLAS rounds differently at different positions in a batch, so that two equal rows may get different results,
    and a higher score a lower probability. This sum is the same for every row, in numpy as in the compiled loop.

    Example:
        >>> out = np.zeros((1, 2), np.float32)
        >>> add_products(np.float32([[1, 2]]), np.float32([[3, 4], [5, 6]]), out)
        >>> out.tolist()
        [[13.0, 16.0]]
    """
    for first in range(0, rows.shape[0], _BLOCK_ROWS):
        here = slice(first, first + _BLOCK_ROWS)
        for k in range(matrix.shape[0]):
            out[here] += rows[here, k, None] * matrix[k]


@final
@dataclass(frozen=True)
class Layers:
    """Affine layers with ReLU in between and nothing after the last one.

    A row's result depends on that row alone, to the last bit; see `add_products`.

    Attributes:
        matrices: Transposed weights, `(n_in, n_out)` each.
        biases: One per layer.
    """

    matrices: Sequence[Floats32]
    biases: Sequence[Floats32]

    @classmethod
    def of(cls, arrays: Arrays, name: str) -> Layers:
        """Collects `name.layers.0.weight`, `name.layers.0.bias`, and so on."""
        n_layers = sum(1 for key in arrays if key.startswith(f"{name}.layers.") and key.endswith(".weight"))
        stems = [f"{name}.layers.{number}" for number in range(n_layers)]
        return cls(
            [np.ascontiguousarray(arrays[f"{stem}.weight"].T) for stem in stems],
            [arrays[f"{stem}.bias"] for stem in stems],
        )

    def __call__(self, rows: NDArray[Any]) -> Floats32:
        """Returns the output `(n, n_out)` for rows `(n, n_in)`, in float32."""
        products = _products()
        values: Floats32 = np.ascontiguousarray(rows, dtype=np.float32)
        for place, (matrix, bias) in enumerate(zip(self.matrices, self.biases, strict=True)):
            if place > 0:
                np.maximum(values, 0.0, out=values)
            out = np.repeat(bias[None], values.shape[0], axis=0)
            products(values, matrix, out)
            values = out
        return values


def arrays_below(arrays: Arrays, name: str) -> dict[str, NDArray[Any]]:
    """Returns the arrays whose names begin with `name.`, by the rest of their names."""
    start = f"{name}."
    return {key[len(start) :]: array for key, array in arrays.items() if key.startswith(start)}


def _products() -> Callable[[Floats32, Floats32, Floats32], None]:
    if not numba_is_installed():
        return add_products
    from monocal.compiled.dense import add_products as compiled

    found: Callable[[Floats32, Floats32, Floats32], None] = compiled
    return found


class LearnedArrays:
    """The learned arrays of a map, as `Ops` looks at them.

    Arguments:
        arrays: By name; none for a map that knows its numbers itself.
    """

    def __init__(self, arrays: Arrays | None = None) -> None:
        self._arrays: Arrays = arrays or {}
        self._layers: dict[str, Layers] = {}

    def learned(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def has(self, name: str) -> bool:
        return name in self._arrays or f"{name}.layers.0.weight" in self._arrays

    def n_inputs(self, network: str) -> int:
        return int(self.layers(network).matrices[0].shape[0])

    def layers(self, network: str) -> Layers:
        """Returns a network by name."""
        if network not in self._layers:
            self._layers[network] = Layers.of(self._arrays, network)
        return self._layers[network]


@final
class NumpyOps(LearnedArrays):
    """The operations on arrays; see `Ops` for what each of them means.

    Arguments:
        arrays: The learned arrays of a map; none for a map that knows its numbers itself.

    Example:
        >>> ops = NumpyOps({"masses.layers.0.weight": np.float32([[1, 2]]), "masses.layers.0.bias": np.float32([3])})
        >>> ops.dense("masses", np.array([[1.0, 1.0]])).tolist(), ops.has("masses"), ops.n_inputs("masses")
        ([[6.0]], True, 2)
    """

    exp: Any = np.exp
    log: Any = np.log
    log1p: Any = np.log1p
    power: Any = np.power
    minimum: Any = np.minimum
    maximum: Any = np.maximum
    clip: Any = staticmethod(np.clip)
    where: Any = staticmethod(np.where)

    def __init__(self, arrays: Arrays | None = None) -> None:
        super().__init__(arrays)
        self._parts: dict[str, NumpyOps] = {}

    # Learned arrays

    def over(self, arrays: Arrays) -> NumpyOps:
        return NumpyOps(arrays)

    def part(self, name: str) -> NumpyOps:
        if name not in self._parts:
            self._parts[name] = NumpyOps(arrays_below(self._arrays, name))
        return self._parts[name]

    def dense(self, network: str, rows: NDArray[Any]) -> Floats:
        return self.layers(network)(rows).astype(np.float64)

    # Precision and constants

    def double(self, values: NDArray[Any]) -> Floats:
        return np.asarray(values, dtype=np.float64)

    def rows(self, numbers: NDArray[Any], like: NDArray[Any]) -> Floats:
        return np.repeat(np.asarray(numbers, dtype=np.float64)[None], len(like), axis=0)

    # Numbers

    def softplus(self, values: Floats) -> Floats:
        result: Floats = np.log1p(np.exp(values))
        return result

    def sigmoid(self, values: Floats) -> Floats:
        return sigmoid(values)

    def logit(self, probabilities: Floats, floor: float) -> Floats:
        return logit(probabilities, floor)

    def rounded(self, values: Floats) -> Floats:
        return round_logits(values)

    # Rows and columns

    def column(self, matrix: NDArray[Any], place: int) -> NDArray[Any]:
        return matrix[:, place]

    def columns(self, matrix: NDArray[Any], start: int, end: int) -> NDArray[Any]:
        return matrix[:, start:end]

    def take_columns(self, matrix: NDArray[Any], places: Sequence[int]) -> NDArray[Any]:
        return matrix[:, list(places)]

    def upright(self, values: NDArray[Any]) -> NDArray[Any]:
        return values[:, None]

    def concat(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(parts, axis=1)

    def pick(self, matrix: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
        result: NDArray[Any] = matrix[np.arange(matrix.shape[0]), places]
        return result

    def sum(self, matrix: Floats) -> Floats:
        result: Floats = np.sum(matrix, axis=1)
        return result

    def count(self, matrix: NDArray[np.bool_]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.count_nonzero(matrix, axis=1)
        return found

    def running_sum(self, matrix: Floats, *, from_end: bool = False) -> Floats:
        if from_end:
            return np.cumsum(matrix[:, ::-1], axis=1)[:, ::-1]
        return np.cumsum(matrix, axis=1)

    def running_max(self, numbers: Floats) -> Floats:
        result: Floats = np.maximum.accumulate(numbers)
        return result

    def softmax(self, values: NDArray[Any]) -> NDArray[Any]:
        powers = np.exp(values - values.max(axis=-1, keepdims=True))
        result: NDArray[Any] = powers / powers.sum(axis=-1, keepdims=True)
        return result

    def softmax_sums(self, matrix: Floats) -> Floats:
        sums = np.cumsum(np.exp(matrix - matrix.max(axis=1, keepdims=True)), axis=1)
        result: Floats = sums / sums[:, -1:]
        return result

    # Tables

    def look_up(self, table: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
        return table.take(places, axis=0)

    def segment(self, values: Floats, knots: Floats) -> NDArray[np.int64]:
        return np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)

    def count_below(self, values: Floats, edges: Floats, *, or_equal: bool = False) -> NDArray[np.int64]:
        found: NDArray[np.int64] = edges.searchsorted(values, side="right" if or_equal else "left")
        return found

    def bin_of(self, values: Floats, n_bins: int) -> tuple[Floats, NDArray[np.int64]]:
        whole: Floats = np.clip(np.floor(values), 0.0, n_bins - 1.0)
        return whole, whole.astype(np.int64)

    def interpolate(self, values: Floats, knots: Floats, heights: Floats) -> Floats:
        # a rounded product and sum keep order inside a piece; at its right end they may go beyond the next height
        following = np.minimum(np.searchsorted(knots, values, side="right"), len(knots) - 1)
        result: Floats = np.minimum(np.interp(values, knots, heights), heights[following])
        return result

    # Matrices of fields

    def vectors(self, context: NDArray[Any]) -> NDArray[Any]:
        return context

    def matrices(self, rows: NDArray[Any], n_rows: int, n_columns: int) -> NDArray[Any]:
        return rows.reshape(-1, n_rows, n_columns)

    def turned(self, matrices: NDArray[Any]) -> NDArray[Any]:
        return matrices.swapaxes(1, 2)

    def matrix_of(self, matrices: NDArray[Any], place: int) -> NDArray[Any]:
        return matrices[:, place]

    def product(self, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        # one after the other: equal rows get equal numbers, which a BLAS does not promise
        result = np.zeros((left.shape[0], left.shape[1], right.shape[2]), left.dtype)
        for k in range(left.shape[2]):
            result += left[:, :, k, None] * right[:, k, None, :]
        return result

    def weighted_sum(self, weights: Floats, parts: Sequence[Floats]) -> Floats:
        result = np.zeros_like(parts[0])
        for place, part in enumerate(parts):
            result += weights[:, place, None] * part
        return result

    # Field ids

    def known_ids(self, ids: NDArray[Any], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(ids < sizes, ids, 0)

    def joined(self, vectors: NDArray[Any]) -> NDArray[Any]:
        return vectors.reshape(vectors.shape[0], -1)

    def add_shifts(self, base: Floats, ids: NDArray[Any], shifts: Floats, offsets: NDArray[np.int64]) -> Floats:
        if base.shape[0] > _SMALL_REQUEST:
            return FieldSchema.of_offsets(offsets, None).add_shifts(base, ids, shifts)
        starts, ends = offsets[:-1, None], offsets[1:, None]
        places = np.asarray(ids).T + starts
        np.copyto(places, starts, where=places >= ends)
        terms = np.empty((places.shape[0] + 1, base.shape[0]))
        terms[0] = base
        shifts.take(places, out=terms[1:], mode="clip")
        # one field after the other, as a large table's loop does: so numpy adds rows up, but never a single column
        found: Floats = np.add.reduce(terms) if base.shape[0] > 1 else np.add.accumulate(terms)[-1]
        return found

    def replaced(self, common: Floats, ids: NDArray[Any], values: Sequence[int], own: OwnRows) -> Floats:
        result = common.copy()
        order = np.argsort(ids, kind="stable")
        starts, ends = (np.searchsorted(ids[order], values, side=side) for side in ("left", "right"))
        for k in np.flatnonzero(ends > starts):
            rows = order[starts[k] : ends[k]]
            result[rows] = own(int(k), lambda column, rows=rows: column[rows])  # type: ignore[misc]
        return result


NUMPY = NumpyOps()
"""The operations of maps that know their numbers themselves."""
