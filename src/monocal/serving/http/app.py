"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from monocal.serving.http import admin_routes, calibrate_routes, open_inference_routes
from monocal.serving.http.answering import json_response, service_of
from monocal.serving.http.body_bytes import BodyBytes
from monocal.serving.http.limits import Limits
from monocal.serving.http.openapi import openapi
from monocal.serving.http.ports import METRICS, OPENAPI, Ports
from monocal.serving.http.refusals import WRONG_METHOD, refusal_response
from monocal.serving.http.request_counts import RequestCounts
from monocal.serving.runtime.free_memory import give_memory_back
from monocal.serving.runtime.service import Service
from monocal.serving.runtime.worker_board import WorkerBoard
from monocal.serving.settings import Settings


def create_app(settings: Settings, *, home: Path | None = None, board: WorkerBoard | None = None) -> Starlette:
    """Returns the application; its models are loaded when it starts up and freed when it shuts down.

    Arguments:
        settings: What to serve, and how much of it at a time.
        home: A folder that all workers share for private copies of models; None makes a temporary one.
        board: What workers tell each other; None means that there is one worker.

    Example:
        >>> import monocal
        >>> import httpx
        >>> async def ask(app, body):
        ...     beside = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")
        ...     async with app.router.lifespan_context(app), beside as client:
        ...         return (await client.post("/v1/calibrate", json=body)).json()
        >>> log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = monocal.fit(log, method="platt", score="pctr", label="click").save(Path(folder) / "model")
        ...     app = create_app(Settings(Path(folder) / "model"))
        ...     asyncio.run(ask(app, {"scores": {"click": [1.5]}}))["error"][:68]
        "scores of 'click': got 1.5 at row 0; expected probabilities in [0, 1]."
    """

    bodies = BodyBytes(settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # a worker that is started again while the disk is full must need nothing new there
        own: AbstractContextManager[str | Path] = (
            nullcontext(home) if home is not None else tempfile.TemporaryDirectory(prefix="monocal-")
        )
        with own as folder:
            at = Path(folder)
            service = Service.build(settings, at, board or WorkerBoard.create(at / "board", 1))
            service.start()
            app.state.service = service
            running = [asyncio.create_task(service.run()), asyncio.create_task(_give_memory_back(bodies))]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task
                service.metrics.flush()

    return Starlette(
        routes=[
            *calibrate_routes.routes(),
            *open_inference_routes.routes(),
            *admin_routes.routes(),
            Route(METRICS, metrics),
            Route(OPENAPI, describe_api),
        ],
        middleware=[
            Middleware(RequestCounts, access_log=settings.access_log),
            Middleware(Limits, settings=settings, bodies=bodies),
            Middleware(Ports, admin_port=settings.admin_port),
        ],
        exception_handlers={HTTPException: _refuse},
        lifespan=lifespan,
    )


async def metrics(http: HttpRequest) -> Response:
    """Answers a Prometheus scrape."""
    service = service_of(http)
    versions = {store.name: store.engine.version for store in service.stores.values()}
    return Response(service.metrics.exposition(versions), media_type=CONTENT_TYPE_LATEST)


async def describe_api(http: HttpRequest) -> Response:
    """Answers with the OpenAPI document of the model now serving."""
    service = service_of(http)
    return json_response(openapi(service.settings, service.engine))


async def _refuse(_http: HttpRequest, error: Any) -> Response:
    if error.status_code == WRONG_METHOD:
        allowed = (error.headers or {}).get("Allow", "another method")
        return refusal_response(error.status_code, f"method: wanted {allowed}. Hint: see {OPENAPI}.", error.headers)
    return refusal_response(error.status_code, f"there is no such path. Hint: see {OPENAPI}.", error.headers)


async def _give_memory_back(bodies: BodyBytes) -> None:
    """Hands what large bodies took back to the system, once none is in hand and at most once a second."""
    while True:
        await asyncio.sleep(1.0)
        if bodies.had_large and not bodies.n_bytes:
            bodies.had_large = False
            give_memory_back()
