"""What calls take and answer, as types: msgspec reads bodies into them, and the OpenAPI document is made from them."""

from __future__ import annotations

import gc
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, final

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from monocal.core import __version__
from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.scores import Floats
from monocal.models.model import Fusion
from monocal.serving.encode import Value
from monocal.serving.engine import Engine, Request
from monocal.serving.limits import KINDS, METRICS, Refusal
from monocal.serving.settings import Settings

_Body = TypeVar("_Body")
Id = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Probability = Annotated[float, Meta(ge=0, le=1)]


@final
class FusionBody(Struct, forbid_unknown_fields=True):
    """A weighted sum of powers of the calibrated probabilities."""

    weights: dict[str, float]
    powers: dict[str, float] = {}


@final
class CalibrateBody(Struct, forbid_unknown_fields=True):
    """The candidates of one request: scores per task, and `fields` per candidate and `shared` for all, or `ids`."""

    scores: dict[str, list[float]]
    shared: dict[str, Value] = {}
    fields: dict[str, list[Value]] = {}
    ids: list[list[Id]] | None = None
    sampling_rate: float | list[float] | None = None
    fusion: FusionBody | None = None
    other: list[float] | None = None
    interval: Annotated[float, Meta(gt=0, lt=1)] | None = None


@final
class Calibrated(Struct, omit_defaults=True):
    """One probability per candidate and task, and the version of the model that gave them."""

    model: str
    version: str
    probabilities: Mapping[str, list[Probability]]
    lower: Mapping[str, list[Probability]] | UnsetType = UNSET
    upper: Mapping[str, list[Probability]] | UnsetType = UNSET
    fused: list[float] | UnsetType = UNSET


@final
class FeedbackBody(Struct, forbid_unknown_fields=True):
    """Labels (0, 1 or null for unknown) with the probabilities that were answered."""

    probabilities: dict[str, list[float]]
    labels: dict[str, list[float | None]]


@final
class Counted(Struct):
    """How many labels per task were counted."""

    counted: dict[str, int]


@final
class Loaded(Struct):
    """How a load went in the worker that was asked; the others follow within `watch_seconds`."""

    model: str
    outcome: Literal["switched", "unchanged"]
    version: str


@final
class RefusalBody(Struct):
    """What was got, what was expected and what to do."""

    error: str
    kind: str


@final
class Call(NamedTuple):
    """A path and a method, and what they take and answer."""

    path: str
    method: str
    summary: str
    body: type[Struct] | None = None
    answer: type[Struct] | None = None


_PARTS: dict[str, tuple[str, Any]] = {
    "scores": ("scores of", list[float]),
    "fields": ("field", list[Value]),
    "shared": ("field", Value),
    "fusion.weights": ("fusion weights of", float),
    "fusion.powers": ("fusion powers of", float),
    "probabilities": ("probabilities of", list[float]),
    "labels": ("labels of", list[float | None]),
}
"""What errors call an entry of an object whose names the caller chose, and the type of its values."""

_LARGE_BYTES = 1 << 20
"""Of longer bodies a refusal does not name what is wrong, which would be reading them twice."""

_ENCODER = msgspec.json.Encoder(enc_hook=lambda column: column.tolist())


def encode(value: Any) -> bytes:
    """Returns JSON; columns become lists of numbers that read back to the last bit.

    Example:
        >>> encode({"click": np.array([0.1, 1e-7])})
        b'{"click":[0.1,1e-7]}'
    """
    return _ENCODER.encode(value)


def decode(content: bytes, kind: type[_Body]) -> _Body:
    """Reads a JSON body as its type, or says in one line what is wrong with it.

    Example:
        >>> decode(b'{"scores": {"click": [0.1, "0.2"]}}', CalibrateBody)
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: scores of 'click': got str at row 1; expected float. Hint: see /openapi.json.
    """
    is_large = len(content) > _LARGE_BYTES and gc.isenabled()
    if is_large:
        gc.disable()  # it would walk through millions of new lists again and again while they are made
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), content, kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(
            400,
            f"body: got malformed JSON ({error}); expected a JSON object. "
            "Hint: note that JSON has no NaN and no infinity.",
        ) from None
    finally:
        if is_large:
            gc.enable()


def calibrate_request(content: bytes, max_rows: int, engine: Engine) -> Request:
    """Turns the body of `POST /v1/calibrate` into a request.

    Names and values are the engine's business; here is what it takes for granted, that no list is too long.
    """
    body = decode(content, CalibrateBody)
    check_lengths(((f"scores of {name!r}", column) for name, column in body.scores.items()), max_rows)
    check_lengths(((f"field {name!r}", column) for name, column in body.fields.items()), max_rows)
    rate = body.sampling_rate
    for what, column in (("ids", body.ids), ("sampling_rate", rate), ("other", body.other)):
        if isinstance(column, list):
            check_lengths([(what, column)], max_rows)
    fusion = None
    if body.fusion is not None:
        for part in (body.fusion.weights, body.fusion.powers):
            check_names(part, engine.task_names, "task of fusion")
        fusion = Fusion(body.fusion.weights, body.fusion.powers)
    ids = None if body.ids is None else _ids(body.ids, len(engine.field_names))
    return Request(body.scores, body.shared, body.fields, ids, rate, fusion, body.other, body.interval)


def feedback_rows(content: bytes, max_rows: int, tasks: Collection[str]) -> dict[str, tuple[Floats, Floats]]:
    """Turns the body of `POST /v1/feedback` into probabilities and labels per task; rows of null labels are left out.

    Example:
        >>> feedback_rows(b'{"probabilities": {"click": [0.1, 0.2]}, "labels": {"click": [1, null]}}', 10, ["click"])
        {'click': (array([0.1]), array([1.]))}
    """
    body = decode(content, FeedbackBody)
    for columns in (body.labels, body.probabilities):
        check_names(columns, tasks, "task")
        check_lengths(((f"labels of {task!r}", column) for task, column in columns.items()), max_rows)
    if not body.labels:
        raise InvalidInput.of("labels", "no task", "labels of at least one task", "send task to list of 0 and 1")
    found = {}
    for task in {**body.labels, **body.probabilities}:
        if task not in body.labels or task not in body.probabilities:
            raise InvalidInput.of(
                f"task {task!r}", "labels or probabilities alone", "both", "send back the probabilities with the labels"
            )
        p, y = (np.array(part[task], dtype=np.float64) for part in (body.probabilities, body.labels))
        if p.shape != y.shape:
            raise InvalidInput.of(
                f"labels of {task!r}", f"{y.size} of them", f"{p.size}, one per probability", "use null for unknown"
            )
        known = ~np.isnan(y)
        if not np.isin(y[known], (0.0, 1.0)).all():
            row = int(np.flatnonzero(known & (y != 0.0) & (y != 1.0))[0])
            raise InvalidInput.of(f"labels of {task!r}", f"{y[row]:g} at row {row}", "0, 1 or null", "null is unknown")
        if not ((p >= 0.0) & (p <= 1.0)).all():
            raise InvalidInput.of(
                f"probabilities of {task!r}", "numbers beyond", "numbers in [0, 1]", "send what calibrate answered"
            )
        found[task] = p[known], y[known]
    return found


def check_names(names: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuses the first name that the model does not know."""
    for name in names:
        if name not in known:
            raise UnknownName.among(what, name, known)


def check_lengths(columns: Iterable[tuple[str, list[Any]]], max_rows: int) -> None:
    """Refuses the first list with more entries than a request may have candidates."""
    for what, column in columns:
        if len(column) > max_rows:
            message = f"{what[:200]}: got {len(column)} entries; expected at most {max_rows}. Hint: split the request."
            raise Refusal(413, message)


def _ids(rows: list[list[int]], n_fields: int) -> Any:
    for row, ids in enumerate(rows):
        if len(ids) != n_fields:
            raise InvalidInput.of(
                "ids",
                f"{len(ids)} at row {row}",
                f"a list of {n_fields} integers per candidate",
                "send one id per candidate and field",
            )
    # wider than the engine's ids until they were compared with the vocabulary's sizes
    return np.array(rows, dtype=np.int64).reshape(len(rows), n_fields)


def _explained(message: str, content: bytes, kind: Any) -> InvalidInput:
    """Turns what msgspec says, such as "Expected `float`, got `str` - at `$.scores[...][0]`", into our words."""
    text, _, path = message.rpartition(" - at `$")
    text, path = (text, path[:-1].removeprefix(".")) if text else (message, "")
    if text.startswith("Object contains unknown field"):
        name = text.removeprefix("Object contains unknown field `")[:-1]
        members = FusionBody if path == "fusion" else kind
        return UnknownName.among(f"member of {path or 'body'}", name, members.__struct_fields__)
    if text.startswith("Object missing required field"):
        missing = text.removeprefix("Object missing required field `")[:-1]
        where = f"{path}.{missing}" if path else missing
        return InvalidInput.of(where, "nothing", "a value", "see /openapi.json")
    what, row = _entry(path, content)
    expected, _, got = text.removeprefix("Expected ").replace("`", "").partition(", got ")
    if not text.startswith("Expected "):
        expected, got = "what /openapi.json says", text[0].lower() + text[1:]
    return InvalidInput.of(what, f"{got or 'another value'}{row}", expected, "see /openapi.json")


def _entry(path: str, content: bytes) -> tuple[str, str]:
    """Returns what a path leads to in words, and the row; a path does not say which name, so it is looked for."""
    part, found, rest = path.partition("[...]")
    row = re.fullmatch(r"\[(\d+)\]", rest)
    if not found or part not in _PARTS or len(content) > _LARGE_BYTES:
        return path or "body", ""
    words, kind = _PARTS[part]
    unread = dict[str, msgspec.Raw]
    try:
        entries = msgspec.Raw(content)
        for name in part.split("."):
            entries = msgspec.json.decode(entries, type=unread)[name]
        for name, entry in msgspec.json.decode(entries, type=unread).items():
            try:
                msgspec.json.decode(entry, type=kind)
            except msgspec.ValidationError:
                return f"{words} {name!r}", f" at row {row[1]}" if row else ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the rest of the body is malformed, too
        pass
    return path, ""


def openapi(calls: Iterable[Call], settings: Settings, engine: Engine) -> dict[str, Any]:
    """Returns the OpenAPI document of a service, with the tasks and fields of the model now serving."""
    kinds = (CalibrateBody, Calibrated, FeedbackBody, Counted, Loaded, RefusalBody)
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    properties = schemas["CalibrateBody"]["properties"]
    tasks, fields = engine.task_names, engine.field_names
    for part, names in (("scores", tasks), ("fields", fields), ("shared", fields)):
        entry = properties[part].pop("additionalProperties")
        if part != "shared":
            entry["maxItems"] = settings.max_rows
        properties[part] |= {"properties": dict.fromkeys(names, entry), "additionalProperties": False}
    schemas["CalibrateBody"]["example"] = {
        "scores": {task: [0.12, 0.05] for task in tasks},
        "shared": {field: 9.5 if field in engine.numeric_names else "a value" for field in fields[:1]},
        "fields": {field: [9.5, None] if field in engine.numeric_names else ["one", "another"] for field in fields[1:]},
    }
    model = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}, "example": settings.name}
    refusals = {str(status): _content(kind, RefusalBody) for status, kind in KINDS.items() if status < 500}
    paths: dict[str, Any] = {}
    for call in calls:
        media = "text/plain" if call.path == METRICS else "application/json"
        operation: dict[str, Any] = {"summary": call.summary}
        operation["responses"] = {"200": _content("The answer", call.answer, media), **refusals}
        if call.body is not None:
            operation["requestBody"] = {"required": True, **_content("", call.body)}
        if "{name}" in call.path:
            operation["parameters"] = [model]
        if call.path.endswith("/load") or (settings.token is not None and call.body is FeedbackBody):
            operation["security"] = [{"token": []}]
        paths.setdefault(call.path, {})[call.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "monocal",
            "version": __version__,
            "summary": "Calibrated probabilities for the scores of a ranking model.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _content(description: str, kind: type[Struct] | None, media: str = "application/json") -> dict[str, Any]:
    schema = {} if kind is None else {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}
    return {"description": description, "content": {media: schema}}
