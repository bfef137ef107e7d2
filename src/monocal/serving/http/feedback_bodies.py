"""Bodies of feedback: labels with the probabilities that they belong to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.serving.http.json_bodies import check_members, check_names, kind_of, list_of, numbers_of, object_of

FEEDBACK_MEMBERS = ("probabilities", "labels")

_LABELS = {int, float, bool}


def feedback_of(body: dict[str, Any], max_rows: int, tasks: Collection[str]) -> dict[str, tuple[Floats, Floats]]:
    """Turns the body of `POST /v1/feedback` into probabilities and labels per task; rows of null labels are left out.

    Example:
        >>> feedback_of({"probabilities": {"click": [0.1, 0.2]}, "labels": {"click": [1, None]}}, 10, ["click"])
        {'click': (array([0.1]), array([1.]))}
    """
    check_members(body, FEEDBACK_MEMBERS, "body")
    labels = object_of(body.get("labels"), "labels")
    probabilities = object_of(body.get("probabilities"), "probabilities")
    for columns in (labels, probabilities):
        check_names(columns, tasks, "task")
    if not labels:
        raise InvalidInput.of("labels", "no task", "labels of at least one task", "send task to list of 0 and 1")
    found = {}
    for task in {**labels, **probabilities}:
        if task not in labels or task not in probabilities:
            raise InvalidInput.of(
                f"task {task!r}", "labels or probabilities alone", "both", "send back the probabilities with the labels"
            )
        found[task] = _known_rows(task, labels[task], probabilities[task], max_rows)
    return found


def _known_rows(task: str, labels: Any, probabilities: Any, max_rows: int) -> tuple[Floats, Floats]:
    p = numbers_of(probabilities, f"probabilities of {task!r}", max_rows)
    y = _labels_of(labels, f"labels of {task!r}", max_rows)
    if p.shape != y.shape:
        raise InvalidInput.of(
            f"labels of {task!r}", f"{y.size} of them", f"{p.size}, one per probability", "use null for unknown"
        )
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        raise InvalidInput.of(
            f"probabilities of {task!r}", "numbers beyond", "numbers in [0, 1]", "send what calibrate answered"
        )
    known = ~np.isnan(y)
    return p[known], y[known]


def _labels_of(value: Any, what: str, max_rows: int) -> Floats:
    column = list_of(value, what, max_rows)
    for row, label in enumerate(column):
        if label is not None and (type(label) not in _LABELS or label not in (0, 1)):
            raise InvalidInput.of(what, f"{kind_of(label)} at row {row}", "0, 1 or null", "use null for unknown")
    return np.array([np.nan if label is None else label for label in column], dtype=np.float64)
