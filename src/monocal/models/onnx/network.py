"""The parts that neural calibrators share: vectors of field values, affine layers, shifts per value."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.neural.arrays.context_table import ContextTable, Weights
from monocal.calibrators.neural.arrays.layers import Layers
from monocal.models.onnx.builder import GraphBuilder


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


def write_shifts(graph: GraphBuilder, weights: Weights, features: str) -> str | None:
    """Adds the wide part and returns every row's shift, None if there is none."""
    if "wide.shifts" not in weights or not features:
        return None
    offsets = weights["wide.offsets"]
    ids = graph.known_ids(features, np.diff(offsets).tolist())
    places = graph.apply("Add", ids, graph.constant(offsets[:-1], np.int64))
    shifts = graph.look_up(weights["wide.shifts"].astype(np.float64), places)
    total = graph.apply("ReduceSum", shifts, graph.constant([1], np.int64), keepdims=0)
    return graph.add(total, float(weights["wide.intercept"][0]))
