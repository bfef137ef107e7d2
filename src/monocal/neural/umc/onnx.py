"""UMC as a graph."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.compiled.limits import LOG_SCALE_LIMIT
from monocal.core.spaces import Floats
from monocal.neural.arrays.broken_line import LINE_EPSILON, BrokenLineCurve
from monocal.neural.arrays.context_table import Weights
from monocal.neural.arrays.layers import Layers
from monocal.neural.graph_parts import n_outputs, write_layers, write_line, write_outputs


def write_umc(graph: GraphBuilder, weights: Weights, logits: str, context: str | None) -> str:
    """Adds the fitted map and returns calibrated logits.

    Arguments:
        graph: Where to add it.
        weights: Arrays under the names of the torch map.
        logits: As they enter the map, `(n,)`.
        context: Context rows; None for a map of the score alone.
    """
    if "line.knots" in weights:
        return write_line(graph, logits, BrokenLineCurve(weights, LINE_EPSILON, hard_monotone=True))
    beta = float(weights["beta"][0])
    if "curve.knots" in weights:
        knots = weights["curve.knots"].astype(np.float64)
        raw, n_shape = write_outputs(graph, weights, "trunk", context, logits), len(knots)
        area = write_knot_integral(graph, logits, knots, write_positive(graph, graph.columns(raw, 0, n_shape)))
        return _rescaled(graph, area, beta, raw if n_outputs(weights, "trunk") > n_shape else None, n_shape)
    n_shape = len(weights["curve.slopes"])
    if context is None:
        raw = write_outputs(graph, weights, "", None, logits)
        area = write_node_integral(graph, logits, weights, graph.columns(raw, 0, n_shape))
        return _rescaled(graph, area, beta, raw if len(weights["constants"]) > n_shape else None, n_shape)
    first = Layers([np.ascontiguousarray(weights["offsets.weight"].T)], [weights["offsets.bias"]])
    area = write_node_integral(graph, logits, weights, write_layers(graph, first, context))
    has_scale = "rescaler.layers.0.weight" in weights
    scale = write_layers(graph, Layers.of(weights, "rescaler"), context) if has_scale else None
    return _rescaled(graph, area, beta, scale, 0)


def _rescaled(graph: GraphBuilder, area: str, beta: float, raw: str | None, column: int) -> str:
    """Adds e^w (area + β) + b, with w and b in two columns of `raw`; None leaves both at 0."""
    if raw is None:
        return graph.add(area, beta)
    scale = graph.exp(graph.clip(graph.column(raw, column), -LOG_SCALE_LIMIT, LOG_SCALE_LIMIT))
    shift = graph.add(graph.multiply(scale, beta), graph.column(raw, column + 1))
    return graph.add(graph.multiply(scale, area), shift)


def write_positive(graph: GraphBuilder, values: str) -> str:
    r"""Adds :math:`1 + \mathrm{ELU}(u) = e^{\min(u,0)} + \max(u,0)`."""
    zero = graph.constant(0.0)
    return graph.add(graph.exp(graph.apply("Min", values, zero)), graph.apply("Max", values, zero))


def write_knot_integral(graph: GraphBuilder, logits: str, knots: Floats, heights: str) -> str:
    """Adds the integral of every row's broken line from the middle knot to its logit, in closed form.

    The same steps as in `kernels.knot_integral`, hence the same guarantee: sums of non-negative pieces, each capped by
    its ends, never decrease in the logit.

    Arguments:
        graph: Where to add it.
        logits: Upper limits `(n,)`.
        knots: Increasing positions.
        heights: Positive heights `(n, K)` at the knots.
    """
    n_knots, middle = len(knots), (len(knots) - 1) // 2
    ends = graph.add(graph.columns(heights, 1, n_knots), graph.columns(heights, 0, n_knots - 1))
    steps = graph.multiply(ends, graph.constant(np.diff(knots) * 0.5))
    axis = graph.constant(1, np.int64)
    start = graph.add(graph.multiply(graph.columns(heights, 0, 1), 0.0), float(knots[middle]))
    upward = graph.apply("CumSum", graph.columns(steps, middle, n_knots - 1), axis)
    parts = [start, graph.add(upward, float(knots[middle]))]
    if middle > 0:
        downward = graph.apply("CumSum", graph.columns(steps, 0, middle), axis, reverse=1)
        parts = [graph.subtract(float(knots[middle]), downward), *parts]
    values = graph.apply("Concat", *parts, axis=1)

    segment = graph.apply("Min", graph.last_not_above(logits, knots), graph.constant(n_knots - 2, np.int64))
    following = graph.apply("Add", segment, graph.constant(1, np.int64))
    left, right = graph.look_up(knots[:-1], segment), graph.look_up(knots[1:], segment)
    h0, h1 = graph.pick(heights, segment), graph.pick(heights, following)
    u0, u1 = graph.pick(values, segment), graph.pick(values, following)
    inside = graph.apply("Min", graph.apply("Max", logits, left), right)
    halved = graph.multiply(graph.subtract(h1, h0), graph.look_up(0.5 / np.diff(knots), segment))
    zero = graph.constant(0.0)
    rise, fall = graph.subtract(inside, left), graph.subtract(right, inside)
    rising = graph.add(h0, graph.multiply(rise, graph.apply("Max", halved, zero)))
    falling = graph.subtract(h1, graph.multiply(fall, graph.apply("Min", halved, zero)))
    from_left = graph.apply("Min", graph.add(u0, graph.multiply(rise, rising)), u1)
    from_right = graph.apply("Max", graph.subtract(u1, graph.multiply(fall, falling)), u0)
    area = graph.apply("Where", graph.apply("GreaterOrEqual", h1, h0), from_left, from_right)
    below = graph.multiply(graph.apply("Max", graph.subtract(left, logits), zero), h0)
    above = graph.multiply(graph.apply("Max", graph.subtract(logits, right), zero), h1)
    return graph.add(graph.subtract(area, below), above)


def write_node_integral(graph: GraphBuilder, logits: str, weights: Weights, offsets: str) -> str:
    r"""Adds the integral of the paper's integrand from 0 to every logit by Gauss-Legendre at `graph.n_nodes` places.

    .. math:: U(T) \approx \frac T2 \sum_i \omega_i\, h\!\left(\frac{1 + \xi_i}{2} T\right), \qquad
              h(t) = 1 + \mathrm{ELU}(w_3 \cdot \mathrm{relu}(W_2\,\mathrm{relu}(w t + a) + b_2) + b_3)

    The integrand has kinks, so the error falls with the square of the number of nodes, and order is kept only as far
    as it; `predict` uses the closed form. The features enter through the offsets a, once per row and not per node.
    Hidden layers are float32, as in `predict`, because there are n_nodes of them per row.

    Arguments:
        graph: Where to add it.
        logits: Upper limits `(n,)`.
        weights: Of the curve.
        offsets: First-layer offsets `(n, H)`.
    """
    graph.is_exact = False
    nodes, shares = np.polynomial.legendre.leggauss(graph.n_nodes)
    single = np.float32
    slopes = np.outer((nodes + 1.0) / 2.0, weights["curve.slopes"].astype(np.float64))
    limits = graph.apply("Unsqueeze", graph.cast(logits, single), graph.constant([1, 2], np.int64))
    moved = graph.apply("Mul", limits, graph.constant(slopes[None], single))
    kept = graph.apply("Unsqueeze", graph.cast(offsets, single), graph.constant([1], np.int64))
    rows = graph.apply("Relu", graph.apply("Add", moved, kept))
    rows = graph.apply("MatMul", rows, graph.constant(weights["curve.second.weight"].T, single))
    rows = graph.apply("Relu", graph.apply("Add", rows, graph.constant(weights["curve.second.bias"], single)))
    last = graph.apply("MatMul", rows, graph.constant(weights["curve.third.weight"].T, single))
    raw = graph.cast(graph.apply("Squeeze", last, graph.constant([2], np.int64)), np.float64)
    raw, zero = graph.add(raw, float(weights["curve.third.bias"][0])), graph.constant(0.0)
    # the runtime's own exponential: a rule at moving nodes promises no order that a slower one could keep
    heights = graph.add(graph.apply("Exp", graph.apply("Min", raw, zero)), graph.apply("Max", raw, zero))
    weighted = graph.multiply(heights, graph.constant(shares / 2.0))
    return graph.multiply(logits, graph.apply("ReduceSum", weighted, graph.constant([1], np.int64), keepdims=0))
