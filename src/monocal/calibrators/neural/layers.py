"""Affine layers on arrays, with the same numbers for the same row wherever it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.neural.context import Weights

Floats32 = NDArray[np.float32]

BLOCK_ROWS = 64
"""Rows per matrix product. A BLAS picks its kernel by the shape of the product, and kernels round differently; with
one shape for every call a row's result depends neither on its neighbours nor on how many there are."""


def in_blocks(rows: NDArray[Any]) -> NDArray[Any]:
    """Cuts `(n, ...)` into `(blocks, BLOCK_ROWS, ...)`, the last block filled up with zeros.

    Example:
        >>> in_blocks(np.ones((65, 3))).shape
        (2, 64, 3)
    """
    n_rows = rows.shape[0]
    n_blocks = -(-n_rows // BLOCK_ROWS)
    if n_blocks * BLOCK_ROWS == n_rows:
        return np.ascontiguousarray(rows).reshape(n_blocks, BLOCK_ROWS, *rows.shape[1:])
    padded = np.zeros((n_blocks * BLOCK_ROWS, *rows.shape[1:]), dtype=rows.dtype)
    padded[:n_rows] = rows
    return padded.reshape(n_blocks, BLOCK_ROWS, *rows.shape[1:])


def out_of_blocks(blocks: NDArray[Any], n_rows: int) -> NDArray[Any]:
    """Undoes `in_blocks`."""
    return blocks.reshape(-1, *blocks.shape[2:])[:n_rows]


@final
@dataclass(frozen=True)
class Layers:
    """Affine layers with ReLU in between and nothing after the last one.

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
        if n_layers == 0:
            return cls([np.ascontiguousarray(weights[f"{name}.weight"].T)], [weights[f"{name}.bias"]])
        stems = [f"{name}.layers.{number}" for number in range(n_layers)]
        return cls(
            [np.ascontiguousarray(weights[f"{stem}.weight"].T) for stem in stems],
            [weights[f"{stem}.bias"] for stem in stems],
        )

    def __call__(self, rows: NDArray[Any]) -> Floats32:
        """Returns the output `(n, n_out)` for rows `(n, n_in)`, in float32."""
        values: Floats32 = in_blocks(rows.astype(np.float32, copy=False))
        last = len(self.matrices) - 1
        for place, (matrix, bias) in enumerate(zip(self.matrices, self.biases, strict=True)):
            values = np.matmul(values, matrix)
            values += bias
            if place < last:
                np.maximum(values, 0.0, out=values)
        return out_of_blocks(values, rows.shape[0])
