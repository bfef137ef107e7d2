"""FAC as a graph."""

from __future__ import annotations

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.neural.arrays.broken_line import LINE_EPSILON, BrokenLineCurve
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.layers import Layers
from monocal.neural.graph_parts import write_layers, write_line


def write_fac(graph: GraphBuilder, weights: Weights, logits: str, context: str | None, hard_monotone: bool) -> str:
    """Adds the broken line and the shift by the features; returns calibrated logits.

    Arguments:
        graph: Where to add them.
        weights: `line.*`, and `shift.*` unless the map ignores features.
        logits: As they enter the map, `(n,)`.
        context: Context rows; None for a map of the score alone.
        hard_monotone: Uses the running maximum of the line's values.
    """
    line = write_line(graph, logits, BrokenLineCurve(weights, LINE_EPSILON, hard_monotone))
    if context is None:
        return line
    return graph.add(line, graph.column(write_layers(graph, Layers.of(weights, "shift"), context), 0))
