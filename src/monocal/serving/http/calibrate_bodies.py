"""Bodies of the natural form: from JSON to requests, refusing everything that is not meant."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import orjson

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.models.fusion import Fusion
from monocal.serving.engine.engine import Engine
from monocal.serving.engine.request import Request
from monocal.serving.http.refusals import MALFORMED, TOO_LARGE, Refusal

CALIBRATE_MEMBERS = ("scores", "shared", "fields", "ids", "sampling_rate", "fusion", "other")
FUSION_MEMBERS = ("weights", "powers")
FEEDBACK_MEMBERS = ("probabilities", "labels")

_NUMBERS = {int, float}
_LABELS = {int, float, bool}
_LARGE_BYTES = 1 << 20
_JSON_NAMES = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


def parse_object(body: bytes) -> dict[str, Any]:
    """Reads a JSON object.

    Example:
        >>> parse_object(b'{"scores": {"click": [0.1]}}')
        {'scores': {'click': [0.1]}}
        >>> parse_object(b'{"scores": NaN}')
        Traceback (most recent call last):
        ...
        monocal.serving.http.refusals.Refusal: body: got malformed JSON (...); wanted a JSON object. ...
    """
    try:
        with _collector_paused(len(body) > _LARGE_BYTES):
            value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(
            MALFORMED,
            f"body: got malformed JSON ({error}); wanted a JSON object. "
            "Way out: note that JSON has no NaN and no infinity.",
        ) from None
    return object_of(value, "body")


@contextmanager
def _collector_paused(is_needed: bool) -> Iterator[None]:
    """Keeps the garbage collector from walking through millions of new lists again and again while they are made."""
    is_needed = is_needed and gc.isenabled()
    if is_needed:
        gc.disable()
    try:
        yield
    finally:
        if is_needed:
            gc.enable()


def calibrate_request(body: dict[str, Any], max_rows: int, engine: Engine) -> Request:
    """Turns the body of `POST /v1/calibrate` into a request.

    Names come first: at the first one that the model does not know, nothing more is read. So the work is bounded by
    the model's tasks and fields and by `max_rows`, whatever a body of the allowed length holds.
    """
    check_members(body, CALIBRATE_MEMBERS, "body")
    scores = object_of(body.get("scores", {}), "scores")
    fields = object_of(body.get("fields", {}), "fields")
    shared = object_of(body.get("shared", {}), "shared")
    check_names(scores, engine.task_names, "task")
    check_names(fields, engine.field_names, "field")
    check_names(shared, engine.field_names, "field")
    for role, columns in (("scores of", scores), ("field", fields)):
        for name, column in columns.items():
            list_of(column, f"{role} {name!r}", max_rows)
    ids, rate, fusion, other = (body.get(name) for name in ("ids", "sampling_rate", "fusion", "other"))
    return Request(
        scores=scores,
        shared=shared,
        fields=fields,
        ids=None if ids is None else ids_of(ids, max_rows, len(engine.field_names)),
        sampling_rate=None if rate is None else rate_of(rate, max_rows),
        fusion=None if fusion is None else fusion_of(fusion, engine.task_names),
        other=None if other is None else numbers_of(other, "other", max_rows),
    )


def feedback_of(body: dict[str, Any], max_rows: int, tasks: Collection[str]) -> dict[str, tuple[Floats, Floats]]:
    """Turns the body of `POST /v1/feedback` into probabilities and labels per task, without rows of null labels."""
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
        p = numbers_of(probabilities[task], f"probabilities of {task!r}", max_rows)
        y = _labels_of(labels[task], f"labels of {task!r}", max_rows)
        if p.shape != y.shape:
            raise InvalidInput.of(
                f"labels of {task!r}", f"{y.size} of them", f"{p.size}, one per probability", "use null for unknown"
            )
        if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
            raise InvalidInput.of(
                f"probabilities of {task!r}", "numbers beyond", "numbers in [0, 1]", "send what calibrate answered"
            )
        known = ~np.isnan(y)
        found[task] = (p[known], y[known])
    return found


def check_members(body: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    """Refuses members nobody reads: most often a misspelt one."""
    for name in body:
        if name not in known:
            raise UnknownName.among(f"member of {what}", name, known)


def check_names(columns: dict[str, Any], known: Collection[str], what: str) -> None:
    """Refuses the first name that the model does not know."""
    for name in columns:
        if name not in known:
            raise UnknownName.among(what, name, known)


def object_of(value: Any, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise InvalidInput.of(what, _kind(value), "a JSON object", "see /openapi.json")
    return value


def list_of(value: Any, what: str, max_rows: int) -> list[Any]:
    if type(value) is not list:
        raise InvalidInput.of(what, _kind(value), "a list with one entry per candidate", "see /openapi.json")
    if len(value) > max_rows:
        raise Refusal(
            TOO_LARGE,
            f"{what}: got {len(value)} entries; wanted at most {max_rows}. Way out: split the request.",
        )
    return value


def numbers_of(value: Any, what: str, max_rows: int) -> Floats:
    column = list_of(value, what, max_rows)
    for row, one in enumerate(column):
        if type(one) not in _NUMBERS:
            raise InvalidInput.of(what, f"{_kind(one)} at row {row}", "numbers", "send one number per candidate")
    return np.array(column, dtype=np.float64)


def ids_of(value: Any, max_rows: int, n_fields: int) -> Ids:
    rows = list_of(value, "ids", max_rows)
    for row, ids_of_row in enumerate(rows):
        if type(ids_of_row) is not list or len(ids_of_row) != n_fields:
            raise InvalidInput.of(
                "ids",
                f"{len(ids_of_row) if type(ids_of_row) is list else _kind(ids_of_row)} at row {row}",
                f"a list of {n_fields} integers per candidate",
                "send one id per candidate and field",
            )
    if not {int}.issuperset(map(type, chain.from_iterable(rows))):
        raise InvalidInput.of(
            "ids", "something else than integers", "one integer per candidate and field", "use 0 for unseen"
        )
    if any(one > 0xFFFFFFFF or one < 0 for one in chain.from_iterable(rows)):
        raise InvalidInput.of("ids", "numbers beyond", "ids from 0 to 4294967295", "use 0 for unseen")
    # wider than the engine's ids until they were compared with the vocabulary's sizes
    ids: Ids = np.array(rows, dtype=np.int64).reshape(len(rows), n_fields)  # type: ignore[assignment]
    return ids


def rate_of(value: Any, max_rows: int) -> float | Floats:
    if type(value) is list:
        return numbers_of(value, "sampling_rate", max_rows)
    if type(value) not in _NUMBERS:
        raise InvalidInput.of("sampling_rate", _kind(value), "a number or a list of numbers", "send 0.1, for example")
    return float(value)


def fusion_of(value: Any, tasks: Collection[str]) -> Fusion:
    body = object_of(value, "fusion")
    check_members(body, FUSION_MEMBERS, "fusion")
    parts = {}
    for part in FUSION_MEMBERS:
        parts[part] = object_of(body.get(part, {}), f"fusion {part}")
        check_names(parts[part], tasks, f"task of fusion {part}")
        for task, number in parts[part].items():
            if type(number) not in _NUMBERS:
                raise InvalidInput.of(f"fusion {part} of {task!r}", _kind(number), "a number", "send 1.0, for example")
    return Fusion(**parts)


def _labels_of(value: Any, what: str, max_rows: int) -> Floats:
    column = list_of(value, what, max_rows)
    for row, one in enumerate(column):
        if one is not None and (type(one) not in _LABELS or one not in (0, 1)):
            raise InvalidInput.of(what, f"{_kind(one)} at row {row}", "0, 1 or null", "use null for unknown")
    return np.array([np.nan if one is None else one for one in column], dtype=np.float64)


def _kind(value: Any) -> str:
    return _JSON_NAMES.get(type(value)) or f"{value}"
