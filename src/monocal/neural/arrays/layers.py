"""Affine layers on arrays, with the same numbers for the same row wherever it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.jit import numba_is_installed
from monocal.neural.arrays.context_table import Weights

Floats32 = NDArray[np.float32]

_BLOCK_ROWS = 256
"""Rows that stay in the cache while the plain numpy loop runs over the inputs."""


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
    def of(cls, weights: Weights, name: str) -> Layers:
        """Collects `name.layers.0.weight`, `name.layers.0.bias`, and so on."""
        n_layers = sum(1 for key in weights if key.startswith(f"{name}.layers.") and key.endswith(".weight"))
        stems = [f"{name}.layers.{number}" for number in range(n_layers)]
        return cls(
            [np.ascontiguousarray(weights[f"{stem}.weight"].T) for stem in stems],
            [weights[f"{stem}.bias"] for stem in stems],
        )

    def __call__(self, rows: NDArray[Any]) -> Floats32:
        """Returns the output `(n, n_out)` for rows `(n, n_in)`, in float32."""
        products = _add_products()
        values: Floats32 = np.ascontiguousarray(rows, dtype=np.float32)
        for place, (matrix, bias) in enumerate(zip(self.matrices, self.biases, strict=True)):
            if place > 0:
                np.maximum(values, 0.0, out=values)
            out = np.repeat(bias[None], values.shape[0], axis=0)
            products(values, matrix, out)
            values = out
        return values


def _add_products() -> Any:
    if not numba_is_installed():
        return add_products
    from monocal.compiled.dense_layer import add_products as compiled

    return compiled
