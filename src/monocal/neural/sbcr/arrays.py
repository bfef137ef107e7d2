"""SBCR's map on numpy arrays."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats, sigmoid
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.layers import Layers

MASS_FLOOR = 1e-4
"""Smallest probability that the map returns."""


@final
class MassCurve:
    """SBCR's map on numpy arrays.

    Arguments:
        weights: `masses.*`, or `constants` for a map without features.
    """

    def __init__(self, weights: Weights) -> None:
        self.constants = weights.get("constants")
        self.masses = None if self.constants is not None else Layers.of(weights, "masses")

    def __call__(self, logits: Floats, context: NDArray[np.float32] | None) -> Floats:
        if self.masses is None:
            assert self.constants is not None
            raw = np.repeat(self.constants.astype(np.float64)[None], logits.shape[0], axis=0)
        else:
            assert context is not None
            raw = self.masses(context).astype(np.float64)
        powers = np.exp(raw - raw.max(axis=1, keepdims=True))
        below = np.zeros((raw.shape[0], raw.shape[1] + 1))
        np.cumsum(powers, axis=1, out=below[:, 1:])
        below /= below[:, -1:]
        n_bins = raw.shape[1]
        places = sigmoid(logits) * n_bins
        bins = np.clip(np.floor(places), 0, n_bins - 1).astype(np.int64)
        rows = np.arange(raw.shape[0])
        low, high = below[rows, bins], below[rows, bins + 1]
        mass = np.clip(np.minimum(low + (places - bins) * (high - low), high), MASS_FLOOR, 1.0 - MASS_FLOOR)
        result: Floats = np.log(mass) - np.log1p(-mass)
        return result
