"""Bodies of the natural form: from JSON to requests, refusing everything that is not meant."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.row_intervals import check_level
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.models.model import Fusion
from monocal.serving.engine import Engine, Request
from monocal.serving.http.json_bodies import (
    NUMBERS,
    check_members,
    check_names,
    kind_of,
    list_of,
    numbers_of,
    object_of,
)

CALIBRATE_MEMBERS = ("scores", "shared", "fields", "ids", "sampling_rate", "fusion", "other", "interval")
FUSION_MEMBERS = ("weights", "powers")


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
        interval=interval_of(body),
    )


def interval_of(body: dict[str, Any]) -> float | None:
    """Returns the level of the wanted intervals, None if none are wanted; what is no share in (0, 1) is refused."""
    level = body.get("interval")
    if level is not None:
        check_level(level)
    return level


def ids_of(value: Any, max_rows: int, n_fields: int) -> Ids:
    rows = list_of(value, "ids", max_rows)
    for row, ids_of_row in enumerate(rows):
        if type(ids_of_row) is not list or len(ids_of_row) != n_fields:
            raise InvalidInput.of(
                "ids",
                f"{len(ids_of_row) if type(ids_of_row) is list else kind_of(ids_of_row)} at row {row}",
                f"a list of {n_fields} integers per candidate",
                "send one id per candidate and field",
            )
    if not {int}.issuperset(map(type, chain.from_iterable(rows))):
        raise InvalidInput.of(
            "ids", "something else than integers", "one integer per candidate and field", "use 0 for unseen"
        )
    if any(number > 0xFFFFFFFF or number < 0 for number in chain.from_iterable(rows)):
        raise InvalidInput.of("ids", "numbers beyond", "ids from 0 to 4294967295", "use 0 for unseen")
    # wider than the engine's ids until they were compared with the vocabulary's sizes
    ids: Ids = np.array(rows, dtype=np.int64).reshape(len(rows), n_fields)  # type: ignore[assignment]
    return ids


def rate_of(value: Any, max_rows: int) -> float | Floats:
    if type(value) is list:
        return numbers_of(value, "sampling_rate", max_rows)
    if type(value) not in NUMBERS:
        raise InvalidInput.of("sampling_rate", kind_of(value), "a number or a list of numbers", "send 0.1, for example")
    return float(value)


def fusion_of(value: Any, tasks: Collection[str]) -> Fusion:
    body = object_of(value, "fusion")
    check_members(body, FUSION_MEMBERS, "fusion")
    parts = {}
    for part in FUSION_MEMBERS:
        parts[part] = object_of(body.get(part, {}), f"fusion {part}")
        check_names(parts[part], tasks, f"task of fusion {part}")
        for task, number in parts[part].items():
            if type(number) not in NUMBERS:
                raise InvalidInput.of(
                    f"fusion {part} of {task!r}", kind_of(number), "a number", "send 1.0, for example"
                )
    return Fusion(**parts)
