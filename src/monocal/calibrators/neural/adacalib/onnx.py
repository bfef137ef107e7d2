"""AdaCalib as a graph."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.neural.adacalib.arrays import PROBABILITY_FLOOR
from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.onnx.builder import GraphBuilder


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
