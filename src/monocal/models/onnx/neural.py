"""Neural calibrators as graphs: affine start, context, curve, shifts per field value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from monocal.calibrators.neural.arrays.broken_line import LINE_EPSILON, BrokenLineCurve
from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.neural.arrays.fitted_map import believed_share, curve_weights
from monocal.calibrators.neural.arrays.layers import Layers
from monocal.kernels.limits import LOG_SCALE_LIMIT
from monocal.models.onnx.builder import GraphBuilder, Writer
from monocal.models.onnx.curves import (
    write_knot_integral,
    write_line,
    write_masses,
    write_node_integral,
    write_positive,
)
from monocal.models.onnx.network import write_context, write_layers, write_outputs, write_shifts

CurveWriter = Callable[[GraphBuilder, Any, Weights, str, str | None], str]
"""`(graph, calibrator, the curve's weights, logits, context rows or None) -> calibrated logits`."""


def _umc(graph: GraphBuilder, calibrator: Any, weights: Weights, logits: str, context: str | None) -> str:
    if "line.knots" in weights:
        return write_line(graph, logits, BrokenLineCurve(weights, LINE_EPSILON, hard_monotone=True))
    beta = float(weights["beta"][0])
    if "curve.knots" in weights:
        knots = weights["curve.knots"].astype(np.float64)
        raw, n_shape = write_outputs(graph, weights, "trunk", context, logits), len(knots)
        area = write_knot_integral(graph, logits, knots, write_positive(graph, graph.columns(raw, 0, n_shape)))
        return _rescaled(graph, area, beta, raw if _n_outputs(weights, "trunk") > n_shape else None, n_shape)
    n_shape = len(weights["curve.slopes"])
    if context is None:
        raw = write_outputs(graph, weights, "", None, logits)
        area = write_node_integral(graph, logits, weights, graph.columns(raw, 0, n_shape))
        return _rescaled(graph, area, beta, raw if len(weights["constants"]) > n_shape else None, n_shape)
    first = Layers([np.ascontiguousarray(weights["offsets.weight"].T)], [weights["offsets.bias"]])
    offsets = write_layers(graph, first, context)
    area = write_node_integral(graph, logits, weights, offsets)
    has_scale = "rescaler.layers.0.weight" in weights
    scale = write_layers(graph, Layers.of(weights, "rescaler"), context) if has_scale else None
    return _rescaled(graph, area, beta, scale, 0)


def _n_outputs(weights: Weights, name: str) -> int:
    return len(weights["constants"]) if "constants" in weights else len(Layers.of(weights, name).biases[-1])


def _rescaled(graph: GraphBuilder, area: str, beta: float, raw: str | None, column: int) -> str:
    """Adds e^w (area + β) + b, with w and b in two columns of `raw`; None leaves both at 0."""
    if raw is None:
        return graph.add(area, beta)
    scale = graph.apply("Exp", graph.clip(graph.column(raw, column), -LOG_SCALE_LIMIT, LOG_SCALE_LIMIT))
    shift = graph.add(graph.multiply(scale, beta), graph.column(raw, column + 1))
    return graph.add(graph.multiply(scale, area), shift)


def _fac(graph: GraphBuilder, calibrator: Any, weights: Weights, logits: str, context: str | None) -> str:
    line = write_line(graph, logits, BrokenLineCurve(weights, LINE_EPSILON, calibrator.hard_monotone))
    if context is None:
        return line
    return graph.add(line, graph.column(write_layers(graph, Layers.of(weights, "shift"), context), 0))


def _sbcr(graph: GraphBuilder, calibrator: Any, weights: Weights, logits: str, context: str | None) -> str:
    raw = write_outputs(graph, weights, "masses", context, logits)
    return write_masses(graph, logits, raw, _n_outputs(weights, "masses"))


def _around(write_curve: CurveWriter) -> Writer:
    """Returns a writer of the whole calibrator: what comes before and after every curve is the same."""

    def write(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
        weights: Weights = calibrator.weights_
        chosen = getattr(calibrator, "query_side_fields", None)
        if chosen is not None and features:
            features = graph.apply("Gather", features, graph.constant(list(chosen), np.int64), axis=1)
        slope, intercept = (float(one) for one in weights["affine"])
        start = graph.add(graph.multiply(logits, slope), intercept)
        share, values = believed_share(weights), start
        if share > 0.0:
            context = write_context(graph, weights, features)
            values = write_curve(graph, calibrator, curve_weights(weights), start, context)
        if 0.0 < share < 1.0:
            values = graph.add(graph.multiply(start, 1.0 - share), graph.multiply(values, share))
        shifts = write_shifts(graph, weights, features)
        return values if shifts is None else graph.add(values, shifts)

    return write


NEURAL_LOGITS: dict[str, Writer] = {"umc": _around(_umc), "fac": _around(_fac), "sbcr": _around(_sbcr)}
