"""DESC: deep ensemble shape calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.calibrators.tags import Tags
from monocal.core.errors import InvalidInput
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.fitted_map import Curve
from monocal.neural.desc.arrays import MixtureCurve
from monocal.neural.desc.onnx import write_desc
from monocal.neural.fitting.map_inputs import MapInputs
from monocal.neural.neural_calibrator import NeuralCalibrator

if TYPE_CHECKING:
    from monocal.neural.modules.monotone_map import MonotoneMap


@final
@dataclass(kw_only=True, eq=False, repr=False)
class DescCalibrator(NeuralCalibrator):
    r"""Mixes 48 fixed curves, with weights from one network per field and attention among fields.

    .. math:: p' = v(x, p) \sum_f \alpha_f(x, p) \sum_b \omega_{f,b}(x, p)\, B_b(p), \qquad v \in (0, 1)

    **Not monotone**: the weights see the bucket of the score, so the map jumps at bucket edges, and it can only
    shrink the mixture. `hard_monotone` leaves the bucket out; then weights are fixed for a fixed feature row, and a
    positive mixture of increasing curves increases. Needs at least two fields.

    References:
        Yang et al. Deep ensemble shape calibration: multi-field post-hoc calibration in online advertising. KDD 2024.

    Takes the arguments of `NeuralArguments` beside its own.

    Arguments:
        hidden: Widths of the mixing networks.
        hard_monotone: Leaves the score's bucket out of every weight.

    Example:
        >>> DescCalibrator().tags.monotone, DescCalibrator(hard_monotone=True).tags.monotone
        ('none', 'weak')
    """

    name = "desc"
    uses_numbers = True
    fits_in_shards = True
    class_tags = Tags(monotone="none", features="required", weights_exactly=False)
    default_epochs = 3

    hidden: Sequence[int] = (200, 200)
    hard_monotone: bool = False

    def _tags(self) -> Tags:
        return replace(self.class_tags, monotone="weak" if self.hard_monotone else "none")

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        from monocal.neural.desc.torch_map import DescMap

        if inputs.context_width == 0:
            raise InvalidInput.of("embeddings", '"none"', "vectors, which desc needs", 'use "own" or "ranker"')
        return DescMap(
            inputs.n_fields,
            inputs.n_dimensions,
            hidden=self.hidden,
            hard_monotone=self.hard_monotone,
            seed=self.seed,
        )

    def _curve(self, weights: Weights) -> Curve:
        return MixtureCurve(weights)

    def _write_curve(self, graph: GraphBuilder, weights: Weights, logits: str, context: str | None) -> str:
        assert context is not None
        return write_desc(graph, weights, logits, context)
