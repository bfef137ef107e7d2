"""What calls take and answer, as types: msgspec reads bodies into them, and the OpenAPI document is made from them.

Types bound the form of a body. Names and values are the engine's business, which says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, final

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from monocal.core import __version__
from monocal.core.errors import InvalidInput, UnknownName, check_known
from monocal.core.scores import Floats
from monocal.models.model import Fusion
from monocal.serving.engine import Engine, Request
from monocal.serving.limits import METRICS, Refusal
from monocal.serving.settings import Settings

_Body = TypeVar("_Body")
Id = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Probability = Annotated[float, Meta(ge=0, le=1)]

_VALUE = {"type": ["string", "number", "boolean", "null"]}
Value = Annotated[Any, Meta(extra_json_schema=_VALUE)]
Numbers = Annotated[list[Any], Meta(extra_json_schema={"items": {"type": "number"}})]
Values = Annotated[list[Any], Meta(extra_json_schema={"items": _VALUE})]


@final
class FusionBody(Struct, forbid_unknown_fields=True):
    """A weighted sum of powers of the calibrated probabilities."""

    weights: dict[str, float]
    powers: dict[str, float] = {}


@final
class CalibrateBody(Struct, forbid_unknown_fields=True):
    """The candidates of one request: scores per task, and `fields` per candidate and `shared` for all, or `ids`."""

    scores: dict[str, Numbers]
    shared: dict[str, Value] = {}
    fields: dict[str, Values] = {}
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

    probabilities: dict[str, list[Probability]]
    labels: dict[str, list[Probability | None]]


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


@final
class Call(NamedTuple):
    """A path and a method, the function that answers, and what it takes and answers."""

    path: str
    method: str
    function: Callable[..., Any]
    body: type[Struct] | None = None
    answer: type[Struct] | None = None


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
        >>> decode(b'{"scores": [0.1]}', CalibrateBody)
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: scores: got array; expected object. Hint: see /openapi.json.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(
            400,
            f"body: got malformed JSON ({error}); expected a JSON object. "
            "Hint: note that JSON has no NaN and no infinity.",
        ) from None


def calibrate_request(content: bytes, max_rows: int) -> Request:
    """Turns the body of `POST /v1/calibrate` into a request.

    Names and values are the engine's business, and that all lists are as long as the scores; here they are bounded.
    """
    body = decode(content, CalibrateBody)
    _check_lengths("scores", body.scores, max_rows)
    fusion = None if body.fusion is None else Fusion(body.fusion.weights, body.fusion.powers)
    return Request(
        body.scores, body.shared, body.fields, body.ids, body.sampling_rate, fusion, body.other, body.interval
    )


def feedback_rows(content: bytes, max_rows: int, tasks: Collection[str]) -> dict[str, tuple[Floats, Floats]]:
    """Turns the body of `POST /v1/feedback` into probabilities and labels per task; rows of null labels are left out.

    Example:
        >>> feedback_rows(b'{"probabilities": {"click": [0.1, 0.2]}, "labels": {"click": [1, null]}}', 10, ["click"])
        {'click': (array([0.1]), array([1.]))}
    """
    body = decode(content, FeedbackBody)
    for task in {**body.labels, **body.probabilities}:
        check_known("task", task, tasks)
    _check_lengths("labels", body.labels, max_rows)
    if not body.labels:
        raise InvalidInput.of("labels", "no task", "labels of at least one task", "send task to list of 0 and 1")
    found = {}
    for task in {**body.labels, **body.probabilities}:
        p, y = (np.array(part.get(task, ()), dtype=np.float64) for part in (body.probabilities, body.labels))
        if p.shape != y.shape:
            raise InvalidInput.of(
                f"labels of {task!r}", f"{y.size} of them", f"{p.size}, one per probability", "use null for unknown"
            )
        known = ~np.isnan(y)
        if (broken := np.flatnonzero(known & (y % 1.0 != 0.0))).size:
            got = f"{y[broken[0]]:g} at row {broken[0]}"
            raise InvalidInput.of(f"labels of {task!r}", got, "0, 1 or null", "null is unknown")
        found[task] = p[known], y[known]
    return found


def _check_lengths(what: str, columns: Mapping[str, list[Any]], max_rows: int) -> None:
    """Refuses the first list with more entries than a request may have candidates."""
    for name, column in columns.items():
        if len(column) > max_rows:
            got = f"{what} of {name!r}"[:200] + f": got {len(column)} entries"
            raise Refusal(413, f"{got}; expected at most {max_rows}. Hint: split the request.")


def _explained(message: str, kind: Any) -> InvalidInput:
    """Turns what msgspec says, such as "Expected `float`, got `str` - at `$.other[0]`", into our words."""
    text, _, path = message.replace("`", "").partition(" - at $")
    path = path.removeprefix(".")
    if text.startswith("Object contains unknown field "):
        members = FusionBody if path == "fusion" else kind
        name = text.removeprefix("Object contains unknown field ")
        return UnknownName.among(f"member of {path or 'body'}", name, members.__struct_fields__)
    expected, got = "what /openapi.json says", text[0].lower() + text[1:]
    if text.startswith("Object missing required field "):
        missing = text.removeprefix("Object missing required field ")
        path, expected, got = f"{path}.{missing}".removeprefix("."), "a value", "nothing"
    elif text.startswith("Expected "):
        expected, _, got = text.removeprefix("Expected ").partition(", got ")
    return InvalidInput.of(path or "body", got or "another value", expected, "see /openapi.json")


def openapi(calls: Iterable[Call], settings: Settings, engine: Engine) -> dict[str, Any]:
    """Returns the OpenAPI document of a service, with the tasks and fields of the model now serving."""
    kinds = (CalibrateBody, Calibrated, FeedbackBody, Counted, Loaded, RefusalBody)
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    properties = schemas["CalibrateBody"]["properties"]
    tasks, fields, numbers = engine.task_names, engine.field_names, engine.model.vocabulary.numeric_names
    for part, names in (("scores", tasks), ("fields", fields), ("shared", fields)):
        entry = properties[part].pop("additionalProperties")
        if part != "shared":
            entry["maxItems"] = settings.max_rows
        properties[part] |= {"properties": dict.fromkeys(names, entry), "additionalProperties": False}
    schemas["CalibrateBody"]["example"] = {
        "scores": {task: [0.12, 0.05] for task in tasks},
        "shared": {field: 9.5 if field in numbers else "a value" for field in fields[:1]},
        "fields": {field: [9.5, None] if field in numbers else ["one", "another"] for field in fields[1:]},
    }
    model = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}, "example": settings.name}
    paths: dict[str, Any] = {}
    for call in calls:
        media = "text/plain" if call.path == METRICS else "application/json"
        summary = (call.function.__doc__ or "").partition("\n")[0]
        answers = {"200": _content("The answer", call.answer, media), "4XX": _content("A refusal", RefusalBody)}
        operation: dict[str, Any] = {"summary": summary, "responses": answers}
        if call.body is not None:
            operation["requestBody"] = {"required": True, **_content("", call.body)}
        if "{name}" in call.path:
            operation["parameters"] = [model]
        if call.answer in (Loaded, Counted):
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
