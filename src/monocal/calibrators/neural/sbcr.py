"""SBCR's calibration module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.neural.arguments import NeuralArguments
from monocal.calibrators.neural.context import Weights
from monocal.calibrators.neural.layers import Layers
from monocal.calibrators.neural.neural_calibrator import NeuralCalibrator
from monocal.calibrators.neural.plan import Plan
from monocal.calibrators.neural.prepared import Curve
from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats, sigmoid

if TYPE_CHECKING:
    from monocal.nn.monotone_map import MonotoneMap

MASS_FLOOR = 1e-4
"""Smallest probability that the map returns."""


@final
class SbcrCalibrator(NeuralCalibrator):
    r"""Spreads a probability mass of 1 over equal intervals of the score, by a network of the features.

    .. math:: p' = c_k + (K p - k)(c_{k+1} - c_k), \quad k = \lfloor K p \rfloor, \quad
              c_k = \sum_{j \le k} \mathrm{softmax}(\mathrm{net}(x))_j

    The masses are positive, so the map never decreases in the score for a fixed feature row. With
    `query_side_fields` nothing else is looked at, and the order inside every query is kept.

    References:
        Zhang et al. A self-boosted framework for calibrated ranking. KDD 2024.

    Arguments:
        n_intervals: Number of score intervals K.
        hidden: Widths of the network.
        query_side_fields: Positions of the fields that are equal for all items of a query; None uses all fields.
        shared: Everything that `NeuralCalibrator` takes.

    Example:
        >>> site = np.tile([1, 2], 2000)
        >>> clicks = (np.arange(4000) // 2 * 0.618034) % 1 < np.where(site == 1, 0.3, 0.1)
        >>> sbcr = SbcrCalibrator(l2=0.1).fit(np.full(4000, 0.2), clicks, features=site[:, None])
        >>> sbcr.predict([0.2, 0.2], features=[[1], [2]]).round(1).tolist()
        [0.3, 0.1]
    """

    name = "sbcr"

    def __init__(
        self,
        *,
        n_intervals: int = 100,
        hidden: Sequence[int] = (256, 128, 128),
        query_side_fields: Sequence[int] | None = None,
        **shared: Unpack[NeuralArguments],
    ) -> None:
        super().__init__(**shared)
        self.n_intervals = n_intervals
        self.hidden = hidden
        self.query_side_fields = query_side_fields

    def _columns(self, n_fields: int) -> list[int] | None:
        if self.query_side_fields is None:
            return None
        chosen = list(self.query_side_fields)
        if not chosen or not all(0 <= field < n_fields for field in chosen):
            raise InvalidInput.of(
                "query_side_fields", chosen, f"positions in 0 … {n_fields - 1}", "count fields from 0, or use None"
            )
        return chosen

    def _build(self, plan: Plan) -> MonotoneMap:
        from monocal.nn.sbcr import SbcrMap

        return SbcrMap(
            plan.context_width,
            n_bins=self.n_intervals,
            hidden=self.hidden,
            floor=MASS_FLOOR,
            identity_start=plan.warm_start,
            seed=self.seed,
        )

    def _curve(self, weights: Weights) -> Curve:
        return MassCurve(weights)


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
