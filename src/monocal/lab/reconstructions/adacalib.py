"""AdaCalib: one broken line per value of one field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.calibrators.tags import Tags
from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats, sigmoid
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.fitted_map import Curve
from monocal.neural.fitting.map_inputs import MapInputs
from monocal.neural.neural_calibrator import NeuralCalibrator

if TYPE_CHECKING:
    from torch import nn

    from monocal.neural.modules.monotone_map import MonotoneMap


PROBABILITY_FLOOR = 1e-6


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
    network_is_kept = False

    field: int = 0
    candidate_bins: Sequence[int] = (5, 10, 20)
    hidden: Sequence[int] = (64, 32)
    hard_monotone: bool = False

    def _tags(self) -> Tags:
        return replace(self.class_tags, monotone="weak" if self.hard_monotone else "none")

    def _encoder(self, _samples: Samples, sizes: Sequence[int]) -> nn.Module | None:
        from monocal.neural.modules.field_map import OneField

        if not 0 <= self.field < len(sizes):
            raise InvalidInput.of("field", self.field, f"a position in 0 … {len(sizes) - 1}", "count fields from 0")
        return OneField(self.field)

    def _context(self, _weights: Weights) -> Callable[[Ids], Any] | None:
        return lambda features: features[:, self.field]

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        import torch

        from monocal.lab.reconstructions.adacalib_map import AdaCalibMap
        from monocal.lab.reconstructions.adacalib_statistics import value_statistics

        rows = inputs.rows
        assert rows.features is not None
        values, n_values = np.asarray(rows.features[:, self.field]), inputs.field_sizes[self.field]
        given = sigmoid(rows.logits), rows.known_labels, values, n_values
        found = [value_statistics(*given, n_bins, rows.weights) for n_bins in self.candidate_bins]
        return AdaCalibMap(
            [torch.as_tensor(part.edges) for part in found],
            [torch.as_tensor(part.statistics) for part in found],
            torch.as_tensor(np.bincount(values, rows.weights, minlength=n_values).astype(np.float64)),
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


@final
class LinesCurve:
    """One broken line of the probability per value of a field, on numpy arrays.

    Never decreases where heights do not: inside a segment a non-negative number is multiplied and added, and the
    result is capped by the segment's right end.

    Arguments:
        places: Increasing positions per value, from 0 to 1; infinite after the last knot.
        heights: The line's values there.

    Example:
        >>> curve = LinesCurve(np.array([[0.0, 0.2, 1.0]]), np.array([[0.02, 0.15, 0.6]]))
        >>> sigmoid(curve(np.log([0.1 / 0.9, 1.0]), np.array([0, 7]))).round(5).tolist()
        [0.085, 0.31875]
    """

    def __init__(self, places: Floats, heights: Floats) -> None:
        self.places, self.heights = places, heights

    def __call__(self, logits: Floats, values: NDArray[np.int32]) -> Floats:
        value = np.where(values < self.places.shape[0], values, 0)
        at = sigmoid(logits)
        segment = np.sum(at[:, None] >= self.places[value, 1:-1], axis=1)
        left, right = self.places[value, segment], self.places[value, segment + 1]
        low, high = self.heights[value, segment], self.heights[value, segment + 1]
        inside = low + np.clip((at - left) / (right - left), 0.0, 1.0) * (high - low)
        mixed = np.where(high >= low, np.minimum(inside, high), inside)
        p = np.clip(mixed, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)
        result: Floats = np.log(p) - np.log1p(-p)
        return result


def write_adacalib(graph: GraphBuilder, weights: Weights, logits: str, values: str) -> str:
    """Adds one broken line of the probability per value of a field; returns calibrated logits.

    Arguments:
        graph: Where to add them.
        weights: `places` and `heights` of every value's line.
        logits: As they enter the map, `(n,)`.
        values: The field's ids `(n,)`.
    """
    # beyond every probability, where the arrays say infinity: differences of places stay finite
    places = np.where(np.isfinite(weights["places"]), weights["places"], 2.0)
    ids = graph.known_ids(values, len(places))
    at = graph.sigmoid(logits)
    inner = graph.look_up(places[:, 1:-1], ids)
    reached = graph.cast(graph.apply("GreaterOrEqual", graph.upright(at), inner), np.int64)
    segment = graph.apply("ReduceSum", reached, graph.constant([1], np.int64), keepdims=0)
    following = graph.apply("Add", segment, graph.constant(1, np.int64))
    lines = {name: graph.look_up(table, ids) for name, table in (("x", places), ("y", weights["heights"]))}
    left, right = (graph.pick(lines["x"], place) for place in (segment, following))
    low, high = (graph.pick(lines["y"], place) for place in (segment, following))
    share = graph.apply("Div", graph.subtract(at, left), graph.subtract(right, left))
    inside = graph.add(low, graph.multiply(graph.clip(share, 0.0, 1.0), graph.subtract(high, low)))
    rises = graph.apply("GreaterOrEqual", high, low)
    capped = graph.apply("Where", rises, graph.apply("Min", inside, high), inside)
    return graph.logit(capped, PROBABILITY_FLOOR)
