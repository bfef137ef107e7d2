"""What the operator asks: which model serves, and to load the one that was published."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from monocal.core.errors import UnknownName
from monocal.serving.http.answering import json_response, service_of
from monocal.serving.http.ports import MODELS
from monocal.serving.http.refusals import CONFLICT, NOT_FOUND, Refusal
from monocal.serving.http.token import check_admin_token
from monocal.serving.runtime.service import ACTIVE, SHADOW, Service
from monocal.serving.settings import SHADOW_NAME

MODEL, LOAD = f"{MODELS}/{{name}}", f"{MODELS}/{{name}}/load"


async def list_models(http: HttpRequest) -> Response:
    """Names the models of the service and their versions: the one that answers and, if there is one, its shadow."""
    stores = service_of(http).stores
    said = [
        {"model": store.name, "version": store.engine.version, "answers": number == ACTIVE}
        for number, store in stores.items()
    ]
    return json_response({"models": said})


async def describe(http: HttpRequest) -> Response:
    """Says what a model is, and why the last attempt to replace it was refused, if it was."""
    service = service_of(http)
    store = service.stores[_number(service, http)]
    engine = store.engine
    said: dict[str, Any] = {
        "model": store.name,
        "version": engine.version,
        "methods": engine.methods,
        "fields": {name: size - 1 for name, size in zip(engine.field_names, engine.field_sizes, strict=True)},
        "scores_are": engine.scores_are,
        "fusion": None if engine.fusion is None else engine.fusion.as_dict(),
        "missing_fields": engine.missing_fields,
        "last_refusal": store.last_refusal or None,
    }
    return json_response(said)


async def load(http: HttpRequest) -> Response:
    """Loads what lies in the configured folder, in every worker. The call says which model, never from where."""
    service = service_of(http)
    check_admin_token(http, service.settings.token)
    number = _number(service, http)
    done, workers = await service.load(number)
    if done.outcome == "refused":
        raise Refusal(CONFLICT, f"{done.reason}; {done.version} goes on serving.", facts={"version": done.version})
    said = {"model": service.stores[number].name, "outcome": done.outcome, "version": done.version, "workers": workers}
    return json_response(said)


def routes() -> list[Route]:
    return [
        Route(MODELS, list_models),
        Route(MODEL, describe),
        Route(LOAD, load, methods=["POST"]),
    ]


def _number(service: Service, http: HttpRequest) -> int:
    known = {service.settings.name: ACTIVE}
    if service.shadow is not None:
        known[SHADOW_NAME] = SHADOW
    name = http.path_params["name"]
    if name not in known:
        raise Refusal(NOT_FOUND, str(UnknownName.among("model", name, known)))
    return known[name]
