"""The OpenAPI document, made from the settings and the model now serving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from monocal.core.version import __version__
from monocal.serving.engine import Engine
from monocal.serving.http import admin_routes
from monocal.serving.http.calibrate_bodies import FUSION_MEMBERS
from monocal.serving.http.calibrate_routes import CALIBRATE, FEEDBACK
from monocal.serving.http.feedback_bodies import FEEDBACK_MEMBERS
from monocal.serving.http.open_inference_routes import HEADER_LENGTH, MODEL, SERVER
from monocal.serving.http.open_inference_tensors import TENSOR_TYPES
from monocal.serving.http.ports import HEALTH, LIVE, METRICS, MODELS, READY
from monocal.serving.http.refusals import KINDS, OUR_FAULT
from monocal.serving.settings import Settings

Document = dict[str, Any]

_CATEGORY: Document = {"type": ["string", "integer", "boolean", "null"]}
_NUMBER_OR_NULL: Document = {"type": ["number", "null"]}
_NUMBERS: Document = {"type": "array", "items": {"type": "number"}}
_REFUSAL: Document = {
    "type": "object",
    "required": ["error", "kind"],
    "properties": {"error": {"type": "string"}, "kind": {"enum": sorted(KINDS.values())}},
}


def openapi(settings: Settings, engine: Engine) -> Document:
    """Returns the document as plain JSON values."""
    models = {
        MODEL: {"get": _read("Tensors the model takes and gives", settings, _METADATA)},
        f"{MODEL}/ready": {"get": _read("Whether the model answers", settings, {"type": "object"})},
        f"{MODEL}/infer": {"post": _infer(settings)},
        admin_routes.MODEL: {"get": _read("What the model is", settings, {"type": "object"})},
        admin_routes.LOAD: {"post": _load(settings)},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "monocal",
            "version": __version__,
            "summary": "Calibrated probabilities for the scores of a ranking model.",
        },
        "paths": {
            CALIBRATE: {"post": _post("Calibrate candidates", _calibrate(settings, engine), _answer(engine))},
            FEEDBACK: {"post": _send_labels(settings, engine)},
            SERVER: {"get": _get("About the server", {"type": "object"})},
            LIVE: {"get": _get("Whether the server runs", {"type": "object"})},
            READY: {"get": _get("Whether models are loaded", {"type": "object"})},
            HEALTH: {"get": _get("The same by status alone: 200, or 503", {"type": "object"})},
            MODELS: {"get": _get("The models and their versions", {"type": "object", "required": ["models"]})},
            **models,
            METRICS: {"get": _text("Prometheus metrics", "text/plain")},
        },
        "components": {
            "schemas": {"Refusal": _REFUSAL},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _calibrate(settings: Settings, engine: Engine) -> Document:
    rows = {"maxItems": settings.max_rows}
    tasks = {task: {**_scores(engine), "minItems": 1, **rows} for task in engine.task_names}
    numbers = {task: {"type": "number"} for task in engine.task_names}
    return {
        "type": "object",
        "required": ["scores"],
        "additionalProperties": False,
        "properties": {
            "scores": {"type": "object", "minProperties": 1, "additionalProperties": False, "properties": tasks},
            "shared": _per_field(engine, lambda item: item),
            "fields": _per_field(engine, lambda item: {"type": "array", "items": item, **rows}),
            "ids": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}, **rows},
            "sampling_rate": {"oneOf": [_RATE, {"type": "array", "items": _RATE, **rows}]},
            "fusion": {
                "type": "object",
                "additionalProperties": False,
                "required": ["weights"],
                "properties": {
                    part: {"type": "object", "additionalProperties": False, "properties": numbers}
                    for part in FUSION_MEMBERS
                },
            },
            "other": {**_NUMBERS, **rows},
            "interval": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        },
        "example": {
            "scores": {task: [0.12, 0.05] for task in engine.task_names},
            "shared": {field: 9.5 if field in engine.numeric_names else "a value" for field in engine.field_names[:1]},
            "fields": {
                field: [9.5, None] if field in engine.numeric_names else ["one", "another"]
                for field in engine.field_names[1:]
            },
        },
    }


def _answer(engine: Engine) -> Document:
    return {
        "type": "object",
        "required": ["model", "version", "probabilities"],
        "properties": {
            "model": {"type": "string"},
            "version": {"type": "string"},
            "probabilities": {
                "type": "object",
                "additionalProperties": False,
                "minProperties": 1,
                "properties": dict.fromkeys(engine.task_names, _PROBABILITIES),
            },
            "fused": _NUMBERS,
            **{
                end: {"type": "object", "properties": dict.fromkeys(engine.task_names, _PROBABILITIES)}
                for end in ("lower", "upper")
            },
        },
    }


def _send_labels(settings: Settings, engine: Engine) -> Document:
    call = _post("Send labels back", _feedback(settings, engine), _COUNTED)
    return call if settings.token is None else {**call, "security": [{"token": []}]}


def _feedback(settings: Settings, engine: Engine) -> Document:
    labels = {"type": "array", "items": {"enum": [0, 1, None]}, "maxItems": settings.max_rows}
    probabilities = {**_PROBABILITIES, "maxItems": settings.max_rows}
    return {
        "type": "object",
        "required": list(FEEDBACK_MEMBERS),
        "additionalProperties": False,
        "properties": {
            name: {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": False,
                "properties": dict.fromkeys(engine.task_names, column),
            }
            for name, column in (("probabilities", probabilities), ("labels", labels))
        },
    }


def _infer(settings: Settings) -> Document:
    tensor = {
        "type": "object",
        "required": ["name", "shape", "datatype"],
        "properties": {
            "name": {"type": "string"},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2},
            "datatype": {"enum": list(TENSOR_TYPES)},
            "parameters": {"type": "object", "properties": {"binary_data_size": {"type": "integer", "minimum": 0}}},
            "data": {"type": "array"},
        },
    }
    body = {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string"},
            "inputs": {"type": "array", "items": tensor},
            "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
            "parameters": {"type": "object", "properties": {"binary_data_output": {"type": "boolean"}}},
        },
    }
    answer = {
        "type": "object",
        "required": ["model_name", "model_version", "outputs"],
        "properties": {"outputs": {"type": "array", "items": {"type": "object", "required": ["name", "shape"]}}},
    }
    found = _post("Open Inference Protocol", body, answer)
    found["responses"]["200"]["content"]["application/octet-stream"] = {}
    header = {"name": HEADER_LENGTH, "in": "header", "required": False, "schema": {"type": "integer", "minimum": 0}}
    found["parameters"] = [_name(settings), header]
    return found


def _load(settings: Settings) -> Document:
    answer = {"type": "object", "required": ["model", "outcome", "version", "workers"]}
    return {
        "summary": "Load what was published in the model's folder, in every worker",
        "parameters": [_name(settings)],
        "security": [{"token": []}],
        "responses": {"200": _json("How it went", answer), **_refusals()},
    }


def _post(summary: str, body: Document, answer: Document) -> Document:
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": _json("The answer", answer), **_refusals()},
    }


def _get(summary: str, answer: Document) -> Document:
    return {"summary": summary, "responses": {"200": _json("The answer", answer), **_refusals()}}


def _text(summary: str, media_type: str) -> Document:
    return {
        "summary": summary,
        "responses": {"200": {"description": "Text", "content": {media_type: {}}}, **_refusals()},
    }


def _read(summary: str, settings: Settings, answer: Document) -> Document:
    return {**_get(summary, answer), "parameters": [_name(settings)]}


def _name(settings: Settings) -> Document:
    return {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "example": settings.name,
    }


def _json(description: str, schema: Document) -> Document:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _refusals() -> Document:
    refusal = {"$ref": "#/components/schemas/Refusal"}
    return {str(status): _json(kind, refusal) for status, kind in KINDS.items() if status < OUR_FAULT}


def _per_field(engine: Engine, schema: Callable[[Document], Document]) -> Document:
    numeric = engine.numeric_names
    properties = {name: schema(_NUMBER_OR_NULL if name in numeric else _CATEGORY) for name in engine.field_names}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _scores(engine: Engine) -> Document:
    return _PROBABILITIES if engine.scores_are == "probability" else _NUMBERS


_PROBABILITIES: Document = {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}}
_RATE: Document = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
_COUNTED: Document = {"type": "object", "required": ["counted"]}
_METADATA: Document = {"type": "object", "required": ["name", "versions", "platform", "inputs", "outputs"]}
