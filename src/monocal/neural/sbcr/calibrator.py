"""SBCR's calibration module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.core.errors import InvalidInput
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.fitted_map import Curve
from monocal.neural.fitting.map_inputs import MapInputs
from monocal.neural.neural_calibrator import NeuralCalibrator
from monocal.neural.sbcr.arrays import MASS_FLOOR, MassCurve
from monocal.neural.sbcr.onnx import write_sbcr

if TYPE_CHECKING:
    from monocal.neural.modules.monotone_map import MonotoneMap


@final
@dataclass(kw_only=True, eq=False, repr=False)
class SbcrCalibrator(NeuralCalibrator):
    r"""Spreads a probability mass of 1 over equal intervals of the score, by a network of the features.

    .. math:: p' = c_k + (K p - k)(c_{k+1} - c_k), \quad k = \lfloor K p \rfloor, \quad
              c_k = \sum_{j \le k} \mathrm{softmax}(\mathrm{net}(x))_j

    The masses are positive, so the map never decreases in the score for a fixed feature row. With
    `query_side_fields` nothing else is looked at, and the order inside every query is kept.

    References:
        Zhang et al. A self-boosted framework for calibrated ranking. KDD 2024.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        n_intervals: Number of score intervals K.
        hidden: Widths of the network.
        query_side_fields: Positions of the fields that are equal for all items of a query; None uses all fields.

    Example:
        >>> import numpy as np
        >>> site = np.tile([1, 2], 2000)
        >>> clicks = (np.arange(4000) // 2 * 0.618034) % 1 < np.where(site == 1, 0.3, 0.1)
        >>> sbcr = SbcrCalibrator(l2=0.1).fit(np.full(4000, 0.2), clicks, features=site[:, None])
        >>> sbcr.predict([0.2, 0.2], features=[[1], [2]]).round(1).tolist()
        [0.3, 0.1]
    """

    name = "sbcr"
    uses_numbers = True
    fits_in_shards = True

    n_intervals: int = 100
    hidden: Sequence[int] = (256, 128, 128)
    query_side_fields: Sequence[int] | None = None

    def _columns(self, n_fields: int) -> list[int] | None:
        if self.query_side_fields is None:
            return None
        chosen = list(self.query_side_fields)
        if not chosen or not all(0 <= field < n_fields for field in chosen):
            raise InvalidInput.of(
                "query_side_fields", chosen, f"positions in 0 … {n_fields - 1}", "count fields from 0, or use None"
            )
        return chosen

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        from monocal.neural.sbcr.torch_map import SbcrMap

        return SbcrMap(
            inputs.context_width,
            n_bins=self.n_intervals,
            hidden=self.hidden,
            floor=MASS_FLOOR,
            identity_start=inputs.warm_start,
            seed=self.seed,
        )

    def _curve(self, weights: Weights) -> Curve:
        return MassCurve(weights)

    def _write_curve(self, graph: GraphBuilder, weights: Weights, logits: str, context: str | None) -> str:
        return write_sbcr(graph, weights, logits, context)
