"""The service as an ASGI application: which call does what."""

from __future__ import annotations

import asyncio
import hmac
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, final

from msgspec import UNSET, Struct
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monocal.core.errors import UnknownName
from monocal.serving.engine import Answer, Request
from monocal.serving.limits import BODY, HEALTH, METRICS, MODELS, OPENAPI, Limits, Refusal
from monocal.serving.logs import log_event
from monocal.serving.schemas import (
    CalibrateBody,
    Calibrated,
    Call,
    Counted,
    FeedbackBody,
    Loaded,
    calibrate_request,
    encode,
    feedback_rows,
    openapi,
)
from monocal.serving.service import ModelStore, Service
from monocal.serving.settings import Settings

JSON = "application/json"


def create_app(settings: Settings, home: Path | None = None) -> Starlette:
    """Returns the application; its models are loaded when it starts up and freed when it shuts down.

    Arguments:
        settings: What to serve, and how much of it at a time.
        home: A folder that all workers share for copies of models; None makes a temporary one.

    Example:
        >>> import monocal
        >>> import httpx
        >>> async def ask(app, body):
        ...     beside = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")
        ...     async with app.router.lifespan_context(app), beside as client:
        ...         return (await client.post("/v1/calibrate", json=body)).json()
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model = monocal.fit(log, method="platt", score="pctr", label="click").save(f"{folder}/model")
        ...     asyncio.run(ask(create_app(Settings(model)), {"scores": {"click": [1.5]}}))["error"][:70]
        "scores of 'click': got 1.5 at row 0; expected probabilities in [0, 1]."
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        own: AbstractContextManager[str | Path] = (
            nullcontext(home) if home is not None else tempfile.TemporaryDirectory(prefix="monocal-")
        )
        with own as folder:
            app.state.service = service = Service(settings, Path(folder))
            service.start()
            running = asyncio.create_task(service.run())
            try:
                yield
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running

    return Starlette(
        routes=[
            Route("/v1/calibrate", calibrate, methods=["POST"]),
            Route("/v1/feedback", feedback, methods=["POST"]),
            Route(MODELS, list_models),
            Route(f"{MODELS}/{{name}}", describe),
            Route(f"{MODELS}/{{name}}/load", load, methods=["POST"]),
            Route(HEALTH, health),
            Route(METRICS, metrics),
            Route(OPENAPI, describe_api),
        ],
        middleware=[
            Middleware(Counts, access_log=settings.access_log),
            Middleware(Limits, settings=settings),
        ],
        exception_handlers={HTTPException: _refuse},
        lifespan=lifespan,
    )


@final
class Counts:
    """ASGI middleware around everything else that counts, times and, if asked to, logs every request.

    Endpoints are named by their function, so a client cannot make up new label values.

    Arguments:
        app: The application inside.
        access_log: Whether each request is logged: endpoint, status, rows and duration, never values.
    """

    def __init__(self, app: ASGIApp, access_log: bool) -> None:
        self.app = app
        self.access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        found = scope["app"].state.service.metrics

        async def watched_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - start
                endpoint = getattr(scope.get("endpoint"), "__name__", "none")
                found.observe_request(endpoint, message["status"], seconds)
                if self.access_log:
                    log_event(
                        "request",
                        endpoint=endpoint,
                        status=message["status"],
                        rows=scope.get("monocal_rows", 0),
                        milliseconds=round(1000 * seconds, 3),
                    )
            await send(message)

        found.in_flight.inc()
        try:
            await self.app(scope, receive, watched_send)
        finally:
            found.in_flight.dec()


async def calibrate(http: HttpRequest) -> Response:
    """Answers `{"scores": {task: [...]}, "shared": {field: value}, "fields": {field: [...]}}`."""
    service = _service(http)
    engine = service.engine
    request = calibrate_request(http.scope[BODY], service.settings.max_rows, engine)
    answer = service.calibrate(request, engine)
    body: Any = Calibrated(service.settings.name, answer.version, answer.probabilities)  # type: ignore[arg-type]
    if request.interval is not None:
        ends: Any = answer.ends(request.interval)
        body.lower, body.upper = ends["lower"], ends["upper"]
    body.fused = UNSET if answer.fused is None else answer.fused
    return _counted(http, body, request, answer)


async def feedback(http: HttpRequest) -> Response:
    """Takes labels together with the probabilities that were answered, for the running PCOC.

    Nothing is remembered about single answers, so the caller sends both; rows with a null label are skipped. Labels
    change what the operator sees, so a service with a token asks for it, and one without takes them at a bounded rate.
    """
    service = _service(http)
    settings = service.settings
    if settings.token is not None:
        _check_token(http, settings.token)
    found = feedback_rows(http.scope[BODY], settings.max_rows, service.engine.task_names)
    n_rows = {task: int(labels.size) for task, (_, labels) in found.items()}
    if settings.token is None and not service.feedback_rate.take(sum(n_rows.values())):
        raise Refusal(
            429,
            f"feedback without a token: got more than {settings.feedback_rows_per_second} labels per second; "
            "expected at most that. Hint: send fewer at a time, or start the service with a token.",
            {"retry-after": "1"},
        )
    for task, (probabilities, labels) in found.items():
        service.metrics.observe_feedback(task, probabilities, labels)
    return _json(Counted(n_rows))


async def list_models(http: HttpRequest) -> Response:
    """Names the models of the service and their versions: the one that answers and, if there is one, its shadow."""
    service = _service(http)
    models = [
        {"model": store.name, "version": store.engine.version, "answers": store is service.store}
        for store in service.stores.values()
    ]
    return _json({"models": models})


async def describe(http: HttpRequest) -> Response:
    """Says what a model is, and why the last attempt to replace it was refused, if it was."""
    store = _store(http)
    engine = store.engine
    facts = {
        "model": store.name,
        "version": engine.version,
        "methods": engine.methods,
        "fields": {name: size - 1 for name, size in zip(engine.field_names, engine.field_sizes, strict=True)},
        "scores_are": engine.scores_are,
        "fusion": None if engine.fusion is None else engine.fusion.as_dict(),
        "missing_fields": engine.missing_fields,
        "last_refusal": store.last_refusal or None,
    }
    return _json(facts)


async def load(http: HttpRequest) -> Response:
    """Loads what lies in the configured folder; other workers follow. The call says which model, never from where."""
    token = _service(http).settings.token
    if token is None:
        raise Refusal(403, "admin calls are switched off. Hint: start the service with a token.")
    _check_token(http, token)
    store = _store(http)
    done = await store.load()
    if done.outcome == "refused":
        raise Refusal(409, f"{done.reason}; {done.version} goes on serving.", facts={"version": done.version})
    return _json(Loaded(store.name, done.outcome, done.version))  # type: ignore[arg-type]


async def health(_http: HttpRequest) -> Response:
    """Says that models are loaded; before that, connections wait to be accepted."""
    return _json({"ready": True})


async def metrics(http: HttpRequest) -> Response:
    """Answers a Prometheus scrape."""
    service = _service(http)
    versions = {name: store.engine.version for name, store in service.stores.items()}
    return Response(service.metrics.exposition(versions), media_type=CONTENT_TYPE_LATEST)


async def describe_api(http: HttpRequest) -> Response:
    """Answers with the OpenAPI document of the model now serving."""
    service = _service(http)
    calls = []
    for route in http.app.routes:
        if route.path != OPENAPI:
            (method,) = route.methods - {"HEAD"}
            summary = route.endpoint.__doc__.partition("\n")[0]
            calls.append(Call(route.path, method, summary, *_TYPES.get(route.endpoint, ())))
    return _json(openapi(calls, service.settings, service.engine))


_TYPES: dict[Any, tuple[type[Struct] | None, type[Struct]]] = {
    calibrate: (CalibrateBody, Calibrated),
    feedback: (FeedbackBody, Counted),
    load: (None, Loaded),
}
"""Bodies and answers of the calls that have types."""


def _service(http: HttpRequest) -> Service:
    service: Service = http.app.state.service
    return service


def _json(value: Any) -> Response:
    return Response(encode(value), media_type=JSON)


def _counted(http: HttpRequest, body: Any, request: Request, answer: Answer) -> Response:
    """Returns an answer, and lets the shadow model score the request once it has gone out."""
    http.scope["monocal_rows"] = answer.n_rows
    response = _json(body)
    after: Callable[[], Awaitable[None]] | None = _service(http).after_answer(request, answer)
    response.background = None if after is None else BackgroundTask(after)
    return response


def _store(http: HttpRequest) -> ModelStore:
    stores = _service(http).stores
    name = http.path_params["name"]
    if name not in stores:
        raise Refusal(404, str(UnknownName.among("model", name, stores)))
    return stores[name]


def _check_token(http: HttpRequest, token: str) -> None:
    """Refuses a call without the token; comparing takes the same time whatever was sent."""
    scheme, _, sent = http.headers.get("authorization", "").partition(" ")
    is_right = hmac.compare_digest(sent.encode("utf-8", "replace"), token.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise Refusal(
            401,
            "authorization: got another token; expected the service's. Hint: send it as 'Bearer <token>'.",
            {"www-authenticate": "Bearer"},
        )


async def _refuse(_http: HttpRequest, error: Any) -> Response:
    message = f"there is no such path. Hint: see {OPENAPI}."
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        message = f"method: got another one; expected {allowed}. Hint: see {OPENAPI}."
    return Refusal(error.status_code, message, error.headers).response()
