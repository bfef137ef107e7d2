"""Bodies of feedback: labels with the probabilities, and the corrections, that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.serving.engine.engine import Engine
from monocal.serving.engine.request import Request
from monocal.serving.http.json_bodies import check_members, check_names, kind_of, list_of, numbers_of, object_of

FEEDBACK_MEMBERS = ("probabilities", "labels", "corrections", "version", "shared", "fields")
NEEDED = FEEDBACK_MEMBERS[:2]

_LABELS = {int, float, bool}
_LARGEST_CORRECTION = 100.0


@final
@dataclass(frozen=True)
class Feedback:
    """Labels of one call.

    Attributes:
        version: The model that answered; empty if the caller did not say.
        columns: Per task `probabilities`, `labels` (0 where unknown), `known` and, if they were sent, `corrections`.
        request: The rows' field values, as far as they were sent.
    """

    version: str
    columns: dict[str, dict[str, Floats]]
    request: Request

    @property
    def n_known(self) -> dict[str, int]:
        return {task: int(columns["known"].sum()) for task, columns in self.columns.items()}

    def for_level(self, fields: tuple[str, ...], engine: Engine) -> Ids:
        """Returns the rows' ids, or says what a service with an online level needs beside labels."""
        for task, columns in self.columns.items():
            if "corrections" not in columns or not self.version:
                raise InvalidInput.of(
                    f"feedback of {task!r}",
                    "no version or no corrections",
                    "both, since this service corrects its answers as labels come in",
                    "send back version and corrections as calibrate answered them",
                )
        for name in fields:
            if name not in self.request.fields and name not in self.request.shared:
                raise InvalidInput.of(
                    f"field {name!r}", "no values", "those of the candidates", "send it under fields or shared"
                )
        sizes = {columns["labels"].size for columns in self.columns.values()}
        if len(sizes) > 1:
            raise InvalidInput.of(
                "labels", f"{sorted(sizes)} rows by task", "the same rows for all tasks", "use null for unknown"
            )
        return engine.ids_of(self.request, sizes.pop())


def feedback_of(body: dict[str, Any], max_rows: int, engine: Engine) -> Feedback:
    """Turns the body of `POST /v1/feedback` into columns per task; rows of null labels are marked as unknown."""
    check_members(body, FEEDBACK_MEMBERS, "body")
    labels = object_of(body.get("labels"), "labels")
    probabilities = object_of(body.get("probabilities"), "probabilities")
    corrections = object_of(body.get("corrections", {}), "corrections")
    fields, shared = object_of(body.get("fields", {}), "fields"), object_of(body.get("shared", {}), "shared")
    version = body.get("version", "")
    if type(version) is not str:
        raise InvalidInput.of("version", kind_of(version), "text", "send it as calibrate answered it")
    for columns in (labels, probabilities, corrections):
        check_names(columns, engine.task_names, "task")
    for columns in (fields, shared):
        check_names(columns, engine.field_names, "field")
    for name, column in fields.items():
        list_of(column, f"field {name!r}", max_rows)
    if not labels:
        raise InvalidInput.of("labels", "no task", "labels of at least one task", "send task to list of 0 and 1")
    found = {}
    for task in {**labels, **probabilities, **corrections}:
        if task not in labels or task not in probabilities:
            raise InvalidInput.of(
                f"task {task!r}", "labels or probabilities alone", "both", "send back the probabilities with the labels"
            )
        found[task] = _columns(task, labels[task], probabilities[task], corrections.get(task), max_rows)
    return Feedback(version, found, Request(scores={}, shared=shared, fields=fields))


def _columns(task: str, labels: Any, probabilities: Any, corrections: Any, max_rows: int) -> dict[str, Floats]:
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
    found = {"probabilities": p, "labels": np.nan_to_num(y), "known": (~np.isnan(y)).astype(np.float64)}
    if corrections is not None:
        c = numbers_of(corrections, f"corrections of {task!r}", max_rows)
        if c.shape != y.shape or (c.size and not np.abs(c).max() <= _LARGEST_CORRECTION):
            raise InvalidInput.of(
                f"corrections of {task!r}", f"{c.size} numbers", "one per label, as they were answered", "send those"
            )
        found["corrections"] = c
    return found


def _labels_of(value: Any, what: str, max_rows: int) -> Floats:
    column = list_of(value, what, max_rows)
    for row, label in enumerate(column):
        if label is not None and (type(label) not in _LABELS or label not in (0, 1)):
            raise InvalidInput.of(what, f"{kind_of(label)} at row {row}", "0, 1 or null", "use null for unknown")
    return np.array([np.nan if label is None else label for label in column], dtype=np.float64)
