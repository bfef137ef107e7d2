"""DESC as a graph."""

from __future__ import annotations

import math

import numpy as np

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.layers import Layers
from monocal.neural.desc.arrays import LOGIT_CLAMP, PROBABILITY_FLOOR
from monocal.neural.graph_parts import write_layers, write_softmax


def write_desc(graph: GraphBuilder, weights: Weights, logits: str, context: str) -> str:
    """Adds the mixture of curves and returns calibrated logits.

    Arguments:
        graph: Where to add it.
        weights: Arrays under the names of the torch map.
        logits: As they enter the map, `(n,)`.
        context: Context rows `(n, F * d)`.
    """
    t = graph.clip(logits, -LOGIT_CLAMP, LOGIT_CLAMP)
    mixture = _write_mixture(graph, weights, context, _write_bucket(graph, weights, t))
    mixed = graph.sum(graph.apply("Mul", mixture, _write_bases(graph, t)), 1)
    return graph.logit(mixed, PROBABILITY_FLOOR)


def _write_bases(graph: GraphBuilder, t: str) -> str:
    """Adds the 48 curves at every logit, `(n, 48)`; see `desc.arrays.desc_bases`."""
    a = np.arange(5, 21) / 10.0
    column, p = graph.upright(t), graph.upright(graph.sigmoid(t))
    powers = graph.exp(graph.multiply(graph.log(p), graph.constant(a)))
    scalings = graph.sigmoid(graph.multiply(column, graph.constant(a)))
    logarithms = graph.log(graph.add(graph.multiply(p, graph.constant(a)), 1.0))
    logarithms = graph.apply("Div", logarithms, graph.constant(np.log1p(a)))
    return graph.apply("Concat", powers, scalings, logarithms, axis=1)


def _write_bucket(graph: GraphBuilder, weights: Weights, t: str) -> list[str]:
    if "buckets" not in weights:
        return []
    buckets = weights["buckets"].astype(np.float64)
    place = graph.cast(graph.apply("Floor", graph.multiply(graph.sigmoid(t), float(len(buckets)))), np.int64)
    return [graph.look_up(buckets, graph.apply("Min", place, graph.constant(len(buckets) - 1, np.int64)))]


def _write_mixture(graph: GraphBuilder, weights: Weights, context: str, bucket: list[str]) -> str:
    """Adds the weight of every curve in the final probability, `(n, 48)`."""
    n_fields = len({name.split(".")[1] for name in weights if name.startswith("shapes.")})
    width = len(weights["joint.layers.0.weight"][0]) - (weights["buckets"].shape[1] if bucket else 0)
    n_dimensions = width // n_fields
    fields = graph.apply("Reshape", context, graph.constant([-1, n_fields, n_dimensions], np.int64))
    # turned by hand: ONNX Runtime 1.20 to 1.22 fuse Transpose and MatMul into a step that they have for float32 only
    turned = np.arange(width).reshape(n_fields, n_dimensions).T.reshape(-1)
    across = graph.apply("Gather", context, graph.constant(turned, np.int64), axis=1)
    across = graph.apply("Reshape", across, graph.constant([-1, n_dimensions, n_fields], np.int64))
    affinity = graph.apply("MatMul", fields, across)
    affinity = graph.multiply(affinity, 1.0 / math.sqrt(n_dimensions))
    # far below every affinity: a field pays no attention to itself
    affinity = graph.add(affinity, graph.constant(np.where(np.eye(n_fields) > 0, -1e9, 0.0)))
    others = graph.apply("MatMul", write_softmax(graph, affinity, 2), fields)
    joint_input = graph.apply("Concat", context, *bucket, axis=1)
    joint = graph.apply("Relu", write_layers(graph, Layers.of(weights, "joint"), joint_input))
    attention = write_softmax(graph, write_layers(graph, Layers.of(weights, "field_attention"), joint), 1)
    parts = []
    for field in range(n_fields):
        own = [graph.apply("Gather", rows, graph.constant(field, np.int64), axis=1) for rows in (fields, others)]
        shape = Layers.of(weights, f"shapes.{field}")
        mixed = write_softmax(graph, write_layers(graph, shape, graph.apply("Concat", *bucket, *own, axis=1)), 1)
        parts.append(graph.apply("Mul", mixed, graph.columns(attention, field, field + 1)))
    total = parts[0]
    for part in parts[1:]:
        total = graph.add(total, part)
    return graph.apply("Mul", total, graph.sigmoid(write_layers(graph, Layers.of(weights, "value"), joint)))
