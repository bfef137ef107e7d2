"""Any fitted calibrator as a graph: which method has which writer, and what all of them have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.spaces import SCORE_EPSILON
from monocal.models.onnx.builder import GraphBuilder, Writer
from monocal.models.onnx.neural import NEURAL_LOGITS
from monocal.models.onnx.statistical import STATISTICAL_LOGITS, STATISTICAL_PROBABILITIES

MAX_SEGMENTS = 256


def write_map(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    """Adds a fitted calibrator, its recent shift and its fall-back; returns the probabilities.

    Arguments:
        graph: Where to add them.
        calibrator: A fitted calibrator.
        logits: The value that holds the ranker's logits.
        features: The value that holds ids `(n, F)`; empty if the model has no fields.
    """
    if calibrator.fell_back_:
        return graph.sigmoid(logits)
    shift = float(calibrator.recent_shift_)
    if calibrator.name in PROBABILITY_WRITERS:
        p = PROBABILITY_WRITERS[calibrator.name](graph, calibrator, logits, features)
        return p if shift == 0.0 else graph.sigmoid(graph.add(graph.logit(p, SCORE_EPSILON), shift))
    if calibrator.name in LOGIT_WRITERS:
        z = LOGIT_WRITERS[calibrator.name](graph, calibrator, logits, features)
        return graph.sigmoid(graph.add(z, shift))
    raise InvalidInput.of(
        "model",
        f"the method {calibrator.name!r}",
        f"one that ONNX can express: {', '.join([*LOGIT_WRITERS, *PROBABILITY_WRITERS])}",
        "serve it with monocal serve, or fit another method",
    )


def _per_segment(graph: GraphBuilder, calibrator: Any, logits: str, features: str) -> str:
    if len(calibrator.segments_) > MAX_SEGMENTS:
        raise InvalidInput.of(
            "model",
            f"per_segment with {len(calibrator.segments_)} segments",
            f"at most {MAX_SEGMENTS} segments, since a graph evaluates all of them",
            "raise min_events, or serve the model with monocal serve",
        )
    common = write_map(graph, calibrator.global_, logits, features)
    ids = graph.column(features, calibrator.field)
    result = common
    for value, share, segment in zip(calibrator.values_, calibrator.shares_, calibrator.segments_, strict=True):
        own = write_map(graph, segment, logits, features)
        blend = graph.add(graph.multiply(common, 1.0 - float(share)), graph.multiply(own, float(share)))
        here = graph.apply("Equal", ids, graph.constant(int(value), np.int64))
        result = graph.apply("Where", here, blend, result)
    return result


LOGIT_WRITERS: dict[str, Writer] = {**STATISTICAL_LOGITS, **NEURAL_LOGITS}
PROBABILITY_WRITERS: dict[str, Writer] = {**STATISTICAL_PROBABILITIES, "per_segment": _per_segment}
