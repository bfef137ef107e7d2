"""Integrals, broken lines and masses as graphs."""

from __future__ import annotations

import numpy as np

from monocal.calibrators.neural.arrays.broken_line import BrokenLineCurve
from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.neural.sbcr.arrays import MASS_FLOOR
from monocal.core.spaces import Floats
from monocal.models.onnx.builder import GraphBuilder


def write_positive(graph: GraphBuilder, values: str) -> str:
    r"""Adds :math:`1 + \mathrm{ELU}(u) = e^{\min(u,0)} + \max(u,0)`."""
    zero = graph.constant(0.0)
    return graph.add(graph.apply("Exp", graph.apply("Min", values, zero)), graph.apply("Max", values, zero))


def write_knot_integral(graph: GraphBuilder, logits: str, knots: Floats, heights: str) -> str:
    """Adds the integral of every row's broken line from the middle knot to its logit, in closed form.

    The same steps in the same order as `integrate_knots` of the calibrator, hence also the same guarantee: sums of
    non-negative pieces, each capped by its ends, never decrease in the logit.

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
    heights = write_positive(graph, graph.add(raw, float(weights["curve.third.bias"][0])))
    weighted = graph.multiply(heights, graph.constant(shares / 2.0))
    return graph.multiply(logits, graph.apply("ReduceSum", weighted, graph.constant([1], np.int64), keepdims=0))


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


def write_masses(graph: GraphBuilder, logits: str, raw: str, n_bins: int) -> str:
    """Adds SBCR's distribution function over the score and returns its logit.

    Arguments:
        graph: Where to add it.
        logits: Ranker logits `(n,)`.
        raw: Logarithms of the masses up to a constant, `(n, n_bins)`.
        n_bins: Number of equal score intervals.
    """
    axis = graph.constant(1, np.int64)
    largest = graph.apply("ReduceMax", raw, graph.constant([1], np.int64), keepdims=1)
    summed = graph.apply("CumSum", graph.apply("Exp", graph.subtract(raw, largest)), axis)
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
