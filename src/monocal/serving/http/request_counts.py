"""Counts, times and, if asked to, logs every request."""

from __future__ import annotations

import time
from typing import final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monocal.serving.logs import log_event
from monocal.serving.runtime.live_metrics import LiveMetrics

_NOWHERE = "none"


@final
class RequestCounts:
    """ASGI middleware around everything else.

    Endpoints are named by their function, so a client cannot make up new label values.

    Arguments:
        app: The application inside.
        metrics: Where requests are counted; asked for at each request because it is made at start-up.
        access_log: Whether each request is logged: path, status, rows and duration, never values.
    """

    def __init__(self, app: ASGIApp, access_log: bool) -> None:
        self.app = app
        self.access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        metrics: LiveMetrics = scope["app"].state.service.metrics

        async def watched_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - start
                endpoint = getattr(scope.get("endpoint"), "__name__", _NOWHERE)
                metrics.observe_request(endpoint, message["status"], seconds)
                if self.access_log:
                    log_event(
                        "request",
                        endpoint=endpoint,
                        status=message["status"],
                        rows=scope.get("monocal_rows", 0),
                        milliseconds=round(1000 * seconds, 3),
                    )
            await send(message)

        metrics.in_flight.inc()
        try:
            await self.app(scope, receive, watched_send)
        finally:
            metrics.in_flight.dec()
