"""The service: which call does what, and the server around it, uvicorn in this process or with its own workers."""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, final

import msgspec
import uvicorn
from msgspec import UNSET
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from monocal.core.errors import MonocalError, UnknownName
from monocal.serving.limits import BODY, HEALTH, JSON, METRICS, MODELS, OPENAPI, BoundedProtocol, Limits, Refusal
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
from monocal.serving.settings import SHADOW_NAME, Settings
from monocal.serving.telemetry import LOGGING, log_event

BACKLOG = 2048
"""Connections that may wait to be accepted."""


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
        routes=[Route(call.path, call.function, methods=[call.method]) for call in CALLS],
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
        metrics = scope["app"].state.service.metrics

        async def watched_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - start
                endpoint = getattr(scope.get("endpoint"), "__name__", "none")
                metrics.observe_request(endpoint, message["status"], seconds)
                if self.access_log:
                    facts = {"rows": scope.get("monocal_rows", 0), "milliseconds": round(1000 * seconds, 3)}
                    log_event("request", endpoint=endpoint, status=message["status"], **facts)
            await send(message)

        with metrics.in_flight.track_inprogress():
            await self.app(scope, receive, watched_send)


async def calibrate(http: HttpRequest) -> Response:
    """Answers `{"scores": {task: [...]}, "shared": {field: value}, "fields": {field: [...]}}`."""
    service = _service(http)
    engine = service.engine
    request = calibrate_request(http.scope[BODY], service.settings.max_rows)
    answer = service.calibrate(request, engine)
    body: Any = Calibrated(service.settings.name, answer.version, answer.probabilities)  # type: ignore[arg-type]
    if request.interval is not None:
        ends: Any = answer.ends(request.interval)
        body.lower, body.upper = ends["lower"], ends["upper"]
    body.fused = UNSET if answer.fused is None else answer.fused
    http.scope["monocal_rows"] = answer.n_rows
    response = _json(body)
    if SHADOW_NAME in service.stores:
        response.background = BackgroundTask(service.compare_with_shadow, request, answer, engine)
    return response


async def feedback(http: HttpRequest) -> Response:
    """Takes labels together with the probabilities that were answered, for the running PCOC; needs the token.

    Nothing is remembered about single answers, so the caller sends both; rows with a null label are skipped.
    """
    _check_token(http)
    service = _service(http)
    found = feedback_rows(http.scope[BODY], service.settings.max_rows, service.engine.task_names)
    for task, (probabilities, labels) in found.items():
        service.metrics.observe_feedback(task, probabilities, labels)
    return _json(Counted({task: int(labels.size) for task, (_, labels) in found.items()}))


async def list_models(http: HttpRequest) -> Response:
    """Names the models of the service and their versions: the one that answers and, if there is one, its shadow."""
    models = [
        {"model": name, "version": store.engine.version, "answers": name != SHADOW_NAME}
        for name, store in _service(http).stores.items()
    ]
    return _json({"models": models})


async def describe(http: HttpRequest) -> Response:
    """Says what a model is, and why the last attempt to replace it was refused, if it was."""
    store = _store(http)
    engine = store.engine
    facts = {
        "model": store.name,
        "version": engine.version,
        "methods": {task.name: task.calibrator.name for task in engine.model.tasks},
        "fields": dict(zip(engine.field_names, (size - 1 for size in engine.model.vocabulary.sizes), strict=True)),
        "scores_are": engine.scores_are,
        "fusion": None if engine.fusion is None else engine.fusion.as_dict(),
        "missing_fields": engine.missing_fields,
        "last_refusal": store.last_refusal or None,
    }
    return _json(facts)


async def load(http: HttpRequest) -> Response:
    """Loads what lies in the configured folder; other workers follow. The call says which model, never from where."""
    _check_token(http)
    store = _store(http)
    outcome = await store.load()
    if outcome == "refused":
        raise Refusal(409, f"{store.last_refusal}; {store.engine.version} goes on serving.")
    return _json(Loaded(store.name, outcome, store.engine.version))  # type: ignore[arg-type]


async def health(_http: HttpRequest) -> Response:
    """Says that models are loaded; before that, connections wait to be accepted."""
    return _json({"ready": True})


async def metrics(http: HttpRequest) -> Response:
    """Answers a Prometheus scrape."""
    service = _service(http)
    service.metrics.follow(service.engine)
    versions = {name: store.engine.version for name, store in service.stores.items()}
    return Response(service.metrics.exposition(versions), media_type=CONTENT_TYPE_LATEST)


async def describe_api(http: HttpRequest) -> Response:
    """Describes all of this for machines, with the tasks and fields of the model now serving."""
    service = _service(http)
    return _json(openapi(CALLS, service.settings, service.engine))


CALLS = (
    Call("/v1/calibrate", "POST", calibrate, CalibrateBody, Calibrated),
    Call("/v1/feedback", "POST", feedback, FeedbackBody, Counted),
    Call(MODELS, "GET", list_models),
    Call(f"{MODELS}/{{name}}", "GET", describe),
    Call(f"{MODELS}/{{name}}/load", "POST", load, None, Loaded),
    Call(HEALTH, "GET", health),
    Call(METRICS, "GET", metrics),
    Call(OPENAPI, "GET", describe_api),
)


def _service(http: HttpRequest) -> Service:
    service: Service = http.app.state.service
    return service


def _json(value: Any) -> Response:
    return Response(encode(value), media_type=JSON)


def _store(http: HttpRequest) -> ModelStore:
    stores = _service(http).stores
    name = http.path_params["name"]
    if name not in stores:
        raise Refusal(404, str(UnknownName.among("model", name, stores)))
    return stores[name]


def _check_token(http: HttpRequest) -> None:
    """Refuses a call without the token; comparing takes the same time whatever was sent."""
    token = _service(http).settings.token
    if token is None:
        raise Refusal(403, "this call is switched off. Hint: start the service with a token.")
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


class ServiceStopped(MonocalError):
    """The service could not start or go on."""


def serve(model: str | Path, **settings: Any) -> None:
    """Serves a model until SIGTERM or SIGINT stops it; requests in hand are finished first.

    With several workers, a script calls this under `if __name__ == "__main__":`, as for every use of multiprocessing:
    workers import the script, too.

    Arguments:
        model: The artefact to serve, or a registry whose pointer is followed.
        settings: The other arguments of `Settings`: host, port, workers, token, watch, shadow, …
    """
    run(Settings(Path(model), **settings))


def run(settings: Settings) -> None:
    """Serves in this process if one worker is enough, otherwise in several that share the port.

    A worker that dies, or that does not answer uvicorn's health check for `hang_seconds`, is replaced. Requests that a
    killed worker had in hand are lost to their clients (connection reset). If a worker cannot start, the service stops
    with the reason in the log, rather than trying for ever.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(_open(settings.host, settings.port))]
        taken = {"port": sockets[0].getsockname()[1]}
        if settings.admin_port is not None:
            sockets.append(stack.enter_context(_open(settings.admin_host, settings.admin_port)))
            taken["admin_port"] = sockets[1].getsockname()[1]
        settings = msgspec.structs.replace(settings, **taken)
        home = Path(stack.enter_context(_temporary_folder()))
        config = uvicorn.Config(
            partial(create_app, settings, home),
            factory=True,
            workers=settings.workers,
            http=partial(BoundedProtocol, settings),
            ws="none",
            lifespan="on",
            backlog=BACKLOG,
            log_config=LOGGING,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.drain_seconds,
            timeout_worker_healthcheck=settings.hang_seconds,
        )
        log_event("listening", host=settings.host, workers=settings.workers, model=settings.name, **taken)
        if settings.workers == 1:
            stack.enter_context(_signals_end_here())
            uvicorn.Server(config).run(sockets=sockets)
        else:
            (home / "metrics").mkdir()
            # workers find this in their environment; a request is scored on one thread, workers are the parallelism
            os.environ.update(PROMETHEUS_MULTIPROC_DIR=str(home / "metrics"), OMP_NUM_THREADS="1")
            supervisor = Workers(config, sockets)
            supervisor.run()
            if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
                raise ServiceStopped("a worker could not start; the log lines above say why")
    log_event("stopped")


class Workers(Multiprocess):  # type: ignore[misc]
    """uvicorn's supervisor, which notices the end of a worker at once."""

    def keep_subprocess_alive(self) -> None:
        for process in self.processes:
            # with the worker's end of the pipe open here, too, a health check waits in vain for one that has died
            process.child_conn.close()
        super().keep_subprocess_alive()


def _open(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's delay off only for sockets that say they are TCP; with it an answer takes 40 ms
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise ServiceStopped(f"cannot listen on {host}:{port} ({error.strerror}). Hint: choose another port") from error
    return opened


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="monocal-")
    except OSError as error:
        message = f"the temporary folder cannot be used ({error.strerror}). Hint: free it, or set TMPDIR"
        raise ServiceStopped(message) from error


@contextmanager
def _signals_end_here() -> Iterator[None]:
    """Keeps uvicorn's repetition of the signal that stopped it from killing a process that stopped in good order."""
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
