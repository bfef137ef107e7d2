"""AdaCalib: one broken line per value of one field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from monocal.calibrators.neural.adacalib.arrays import LinesCurve
from monocal.calibrators.neural.adacalib.onnx import write_adacalib
from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.neural.arrays.fitted_map import Curve
from monocal.calibrators.neural.fitting.map_inputs import MapInputs
from monocal.calibrators.neural.neural_calibrator import NeuralCalibrator
from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.calibrators.tags import Tags
from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import sigmoid

if TYPE_CHECKING:
    from torch import nn

    from monocal.calibrators.neural.modules.monotone_map import MonotoneMap


@final
@dataclass(kw_only=True, eq=False, repr=False)
class AdaCalibrator(NeuralCalibrator):
    r"""Draws a broken line of the score for each value of one field, from that value's own click statistics.

    The rows of a value are cut into bins of equal mass. A network turns each bin's statistics, trusted as far as a
    second network says, into the line's values; a third one chooses among several numbers of bins. At prediction
    time a line is looked up by the value's id; unseen values have the line of all rows together.

    **Our reconstruction**: no code of the method is public, and details follow public summaries. Order is
    encouraged by a penalty and guaranteed only with `hard_monotone`.

    References:
        Wei et al. Posterior probability matters: doubly-adaptive calibration for neural predictions in online
        advertising. SIGIR 2022.

    Takes the arguments of `NeuralArguments` beside its own; of its vectors only their length is used.

    Arguments:
        field: Position of the field among the features.
        candidate_bins: The numbers of bins to choose among.
        hidden: Widths of the network behind the line's values.
        hard_monotone: Lets the line's values only rise.

    Example:
        >>> AdaCalibrator().tags.reconstruction, AdaCalibrator(hard_monotone=True).tags.monotone
        (True, 'weak')
    """

    name = "adacalib"
    class_tags = Tags(monotone="none", features="required", weights_exactly=False, reconstruction=True)
    default_epochs = 3
    fits_in_shards = True
    network_is_kept = False

    field: int = 0
    candidate_bins: Sequence[int] = (5, 10, 20)
    hidden: Sequence[int] = (64, 32)
    hard_monotone: bool = False

    def _tags(self) -> Tags:
        return replace(self.class_tags, monotone="weak" if self.hard_monotone else "none")

    def _encoder(self, _samples: Samples, sizes: Sequence[int]) -> nn.Module | None:
        from monocal.calibrators.neural.modules.field_map import OneField

        if not 0 <= self.field < len(sizes):
            raise InvalidInput.of("field", self.field, f"a position in 0 … {len(sizes) - 1}", "count fields from 0")
        return OneField(self.field)

    def _context(self, _weights: Weights) -> Callable[[Ids], Any] | None:
        return lambda features: features[:, self.field]

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        import torch

        from monocal.calibrators.neural.adacalib.shard_statistics import statistics_of_shards
        from monocal.calibrators.neural.adacalib.statistics import value_statistics
        from monocal.calibrators.neural.adacalib.torch_map import AdaCalibMap

        rows = inputs.rows
        assert rows.features is not None
        values, n_values = np.asarray(rows.features[:, self.field]), inputs.field_sizes[self.field]
        given = sigmoid(rows.logits), rows.known_labels, values, n_values
        shards = rows.shards
        found = [
            value_statistics(*given, n_bins, rows.weights)
            if shards is None
            else statistics_of_shards(*given, n_bins, rows.weights, shards)
            for n_bins in self.candidate_bins
        ]
        weights = [None if rows.weights is None else rows.weights[part] for _, part in rows.in_shards.parts()]
        counts = [
            [np.bincount(values[part], own, minlength=n_values).astype(np.float64)]
            for (_, part), own in zip(rows.in_shards.parts(), weights, strict=True)
        ]
        return AdaCalibMap(
            [torch.as_tensor(part.edges) for part in found],
            [torch.as_tensor(part.statistics) for part in found],
            torch.as_tensor(rows.in_shards.add(counts)[0]),
            n_dimensions=self.n_dimensions,
            hidden=self.hidden,
            hard_monotone=self.hard_monotone,
            seed=self.seed,
        )

    def _weights_of(self, curve: MonotoneMap) -> Weights:
        """Draws every value's line once: at prediction time nothing is left of the networks."""
        import torch

        n_values = curve.get_parameter("vectors").shape[0]
        with torch.no_grad():
            chosen, *lines = curve.eval()._condition(torch.arange(n_values)[:, None], n_values)
        best = chosen.argmax(dim=1).numpy()
        n_knots = max(line.shape[1] for line in lines)
        # a line with fewer knots stays flat after its last one
        places, heights = np.full((n_values, n_knots), np.inf), np.empty((n_values, n_knots))
        for candidate in range(chosen.shape[1]):
            mine = best == candidate
            edges, values = (line.numpy()[mine] for line in lines[2 * candidate : 2 * candidate + 2])
            places[mine, : edges.shape[1]] = edges
            heights[mine, : edges.shape[1]] = values
            heights[mine, edges.shape[1] :] = values[:, -1:]
        return {"places": places, "heights": heights}

    def _curve(self, weights: Weights) -> Curve:
        return LinesCurve(weights["places"], weights["heights"])

    def _write_curve(self, graph: GraphBuilder, weights: Weights, logits: str, context: str | None) -> str:
        assert context is not None
        return write_adacalib(graph, weights, logits, context)

    def _write_context(self, graph: GraphBuilder, features: str) -> str | None:
        return graph.column(features, self.field)
