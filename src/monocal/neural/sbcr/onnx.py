"""SBCR as a graph."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.neural.arrays.context_table import Weights
from monocal.neural.graph_parts import n_outputs, write_outputs
from monocal.neural.sbcr.arrays import MASS_FLOOR


def write_sbcr(graph: GraphBuilder, weights: Weights, logits: str, context: str | None) -> str:
    """Adds SBCR's distribution function over the score and returns its logit.

    Arguments:
        graph: Where to add it.
        weights: `masses.*`, or `constants` for a map without features.
        logits: As they enter the map, `(n,)`.
        context: Context rows; None for a map of the score alone.
    """
    raw, n_bins = write_outputs(graph, weights, "masses", context, logits), n_outputs(weights, "masses")
    axis = graph.constant(1, np.int64)
    largest = graph.apply("ReduceMax", raw, graph.constant([1], np.int64), keepdims=1)
    summed = graph.apply("CumSum", graph.exp(graph.subtract(raw, largest)), axis)
    zeros = graph.multiply(graph.columns(summed, 0, 1), 0.0)
    below = graph.apply("Concat", zeros, summed, axis=1)
    below = graph.apply("Div", below, graph.columns(summed, n_bins - 1, n_bins))
    places = graph.multiply(graph.sigmoid(logits), float(n_bins))
    floors = graph.clip(graph.apply("Floor", places), 0.0, n_bins - 1.0)
    bins = graph.cast(floors, np.int64)
    low = graph.pick(below, bins)
    high = graph.pick(below, graph.apply("Add", bins, graph.constant(1, np.int64)))
    inside = graph.add(low, graph.multiply(graph.subtract(places, floors), graph.subtract(high, low)))
    return graph.logit(graph.apply("Min", inside, high), MASS_FLOOR)
