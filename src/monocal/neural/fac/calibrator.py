"""FAC: field-aware calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.calibrators.tags import Tags
from monocal.neural.arrays.broken_line import LINE_EPSILON
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.fitted_map import Curve
from monocal.neural.fac.arrays import shifted_line
from monocal.neural.fac.onnx import write_fac
from monocal.neural.fitting.map_inputs import MapInputs
from monocal.neural.neural_calibrator import NeuralCalibrator

if TYPE_CHECKING:
    from monocal.neural.modules.monotone_map import MonotoneMap


@final
@dataclass(kw_only=True, eq=False, repr=False)
class FacCalibrator(NeuralCalibrator):
    r"""Adds a network of the features to one broken line of the score.

    .. math:: z' = \eta(z) + g(x), \qquad \text{penalty} \sum_k \max(0, b_k - b_{k+1})

    The same curve for every row, only shifted. Scores outside the knots, below 1 % and above 99 % with 100 of them,
    collapse to one value each. Order is encouraged by the penalty and guaranteed only with `hard_monotone`.

    References:
        Pan et al. Field-aware calibration: a simple and empirically strong method for reliable probabilistic
        predictions. WWW 2020.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        n_knots: Knots at equally spaced probabilities.
        hidden: Widths of the network g.
        hard_monotone: Uses the running maximum of the line's values.

    Example:
        >>> import numpy as np
        >>> site = np.tile([1, 2], 2000)
        >>> clicks = (np.arange(4000) // 2 * 0.618034) % 1 < np.where(site == 1, 0.3, 0.1)
        >>> fac = FacCalibrator(l2=0.1).fit(np.full(4000, 0.2), clicks, features=site[:, None])
        >>> fac.predict([0.2, 0.2], features=[[1], [2]]).round(1).tolist()
        [0.3, 0.1]
    """

    name = "fac"
    uses_numbers = True
    fits_in_shards = True
    class_tags = Tags(monotone="none", features="optional", weights_exactly=False)

    n_knots: int = 100
    hidden: Sequence[int] = (200, 200)
    hard_monotone: bool = False

    def _tags(self) -> Tags:
        return replace(self.class_tags, monotone="weak" if self.hard_monotone else "none")

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        from monocal.neural.fac.torch_map import FacMap

        return FacMap(
            inputs.context_width,
            n_knots=self.n_knots,
            hidden=self.hidden,
            epsilon=LINE_EPSILON,
            hard_monotone=self.hard_monotone,
            identity_start=inputs.warm_start,
            seed=self.seed,
        )

    def _curve(self, weights: Weights) -> Curve:
        return shifted_line(weights, self.hard_monotone)

    def _write_curve(self, graph: GraphBuilder, weights: Weights, logits: str, context: str | None) -> str:
        return write_fac(graph, weights, logits, context, self.hard_monotone)
