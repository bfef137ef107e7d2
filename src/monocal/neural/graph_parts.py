"""What the graphs of neural methods share: vectors of field values, affine layers, broken lines, shifts per value."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.neural.arrays.broken_line import BrokenLineCurve
from monocal.neural.arrays.context_table import ContextTable, Weights
from monocal.neural.arrays.layers import Layers


def write_context(graph: GraphBuilder, weights: Weights, features: str) -> str | None:
    """Adds the look-up of vectors and returns context rows `(n, F * d)` in float64, None if there is no encoder.

    Rare values share the slot of unseen ones, so the table holds one vector per slot and ids go through `slots`.
    """
    context = ContextTable.of(weights)
    if context is None or not features:
        return None
    ids = graph.known_ids(features, np.diff(context.offsets).tolist())
    places = graph.apply("Add", ids, graph.constant(context.offsets[:-1], np.int64))
    vectors = graph.look_up(context.table, graph.look_up(context.slots, places))
    return graph.cast(graph.apply("Flatten", vectors, axis=1), np.float64)


def write_layers(graph: GraphBuilder, layers: Layers, rows: str) -> str:
    """Adds affine layers with ReLU in between, in float64: its rounding then is `predict`'s alone."""
    last = len(layers.matrices) - 1
    for place, (matrix, bias) in enumerate(zip(layers.matrices, layers.biases, strict=True)):
        rows = graph.add(graph.apply("MatMul", rows, graph.constant(matrix)), graph.constant(bias))
        if place < last:
            rows = graph.apply("Relu", rows)
    return rows


def write_outputs(graph: GraphBuilder, weights: Weights, name: str, context: str | None, logits: str) -> str:
    """Adds the network that conditions a curve and returns its outputs `(n, K)`.

    Arguments:
        graph: Where to add it.
        weights: Of the curve.
        name: The network's name among them; without features the outputs are `constants`.
        context: Context rows.
        logits: Only their number counts.
    """
    if context is None:
        return graph.add(graph.upright(graph.multiply(logits, 0.0)), graph.constant(weights["constants"][None]))
    return write_layers(graph, Layers.of(weights, name), context)


def n_outputs(weights: Weights, name: str) -> int:
    """How many numbers that network, or `constants` in its place, has per row."""
    return len(weights["constants"]) if "constants" in weights else len(Layers.of(weights, name).biases[-1])


def write_softmax(graph: GraphBuilder, values: str, axis: int) -> str:
    """Adds e^x / Σ e^x along an axis."""
    axes = graph.constant([axis], np.int64)
    powers = graph.exp(graph.subtract(values, graph.apply("ReduceMax", values, axes, keepdims=1)))
    return graph.apply("Div", powers, graph.apply("Unsqueeze", graph.sum(powers, axis), axes))


def write_line(graph: GraphBuilder, logits: str, line: BrokenLineCurve) -> str:
    """Adds a broken line, constant outside its knots."""
    knots, values = line.knots, line.values
    t = graph.clip(logits, float(knots[0]), float(knots[-1]))
    segment = graph.apply("Min", graph.last_not_above(t, knots), graph.constant(len(knots) - 2, np.int64))
    rise = graph.multiply(graph.subtract(t, graph.look_up(knots, segment)), graph.look_up(line.slopes, segment))
    inside = graph.add(graph.look_up(values, segment), rise)
    at_end = graph.apply("GreaterOrEqual", t, graph.constant(knots[-1]))
    inside = graph.apply("Where", at_end, graph.constant(values[-1]), inside)
    if line.hard_monotone:
        inside = graph.apply("Min", inside, graph.look_up(values[1:], segment))
    return inside


def write_shifts(graph: GraphBuilder, weights: Weights, features: str) -> str | None:
    """Adds the wide part and returns every row's shift, None if there is none."""
    if "wide.shifts" not in weights or not features:
        return None
    offsets = weights["wide.offsets"]
    ids = graph.known_ids(features, np.diff(offsets).tolist())
    places = graph.apply("Add", ids, graph.constant(offsets[:-1], np.int64))
    shifts = graph.look_up(weights["wide.shifts"].astype(np.float64), places)
    return graph.add(graph.sum(shifts, 1), float(weights["wide.intercept"][0]))
