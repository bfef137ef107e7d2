"""Statistical calibrators as graphs: each function adds one fitted map."""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.spaces import logit
from monocal.models.onnx.builder import GraphBuilder, Writer


def _none(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    return graph.apply("Identity", logits)


def _platt(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    return graph.add(graph.multiply(logits, calibrator.slope_), calibrator.intercept_)


def _temperature(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    return graph.multiply(logits, 1.0 / calibrator.temperature_)


def _beta(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    log_score = graph.apply("Neg", graph.softplus(graph.apply("Neg", logits)))
    both = graph.add(graph.multiply(log_score, calibrator.a_), graph.multiply(graph.softplus(logits), calibrator.b_))
    return graph.add(both, calibrator.c_)


def _gauss(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    z = graph.clip(logits, calibrator.lowest_logit, calibrator.highest_logit)
    slope = graph.add(graph.multiply(z, calibrator.a_), calibrator.b_)
    return graph.add(graph.multiply(slope, z), calibrator.c_)


def _gamma(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    r = graph.clip(graph.add(logits, 13.0), 1e-4, 26.0)
    both = graph.add(graph.multiply(graph.apply("Log", r), calibrator.a_), graph.multiply(r, calibrator.b_))
    return graph.add(both, calibrator.c_)


def _wide_logistic(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    total = _platt(graph, calibrator, logits, features)
    offsets = calibrator.offsets_
    for field in range(len(offsets) - 1):
        shifts = calibrator.shifts_[offsets[field] : offsets[field + 1]]
        ids = graph.known_ids(graph.column(features, field), len(shifts))
        total = graph.add(total, graph.look_up(shifts, ids))
    return total


def _isotonic(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    return graph.interpolate(graph.sigmoid(logits), calibrator.knots_, calibrator.rates_)


def _sir(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    _refuse_authors(calibrator)
    return graph.interpolate(graph.sigmoid(logits), calibrator.knots_, calibrator.rates_)


def _histogram(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    _refuse_authors(calibrator)
    inner = logit(calibrator.edges_[1:-1])
    if len(inner) == 0:
        return graph.add(graph.multiply(logits, 0.0), float(calibrator.rates_[0]))
    starts = np.concatenate([[-1e9], inner])
    return graph.look_up(calibrator.rates_, graph.last_not_above(logits, starts, strictly=True))


STATISTICAL_LOGITS: dict[str, Writer] = {
    "none": _none,
    "platt": _platt,
    "temperature": _temperature,
    "beta": _beta,
    "gauss": _gauss,
    "gamma": _gamma,
    "wide_logistic": _wide_logistic,
}
STATISTICAL_PROBABILITIES: dict[str, Writer] = {
    "isotonic": _isotonic,
    "sir": _sir,
    "histogram": _histogram,
}


def _refuse_authors(calibrator: Any) -> None:
    if calibrator.variant == "authors":
        raise InvalidInput.of("model", 'variant "authors"', 'variant "monocal"', "that variant exists for parity only")
