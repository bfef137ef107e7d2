"""Which calls are answered where, if the service has a port of its own for its operator."""

from __future__ import annotations

from typing import final

from starlette.types import ASGIApp, Receive, Scope, Send

from monocal.serving.http.refusals import NOT_FOUND, refusal_response

LIVE, READY, HEALTH, METRICS, OPENAPI, MODELS = (
    "/v2/health/live",
    "/v2/health/ready",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/v1/models",
)
PROBES = frozenset({LIVE, READY, HEALTH, METRICS})
"""Calls without a body that have to be answered however busy the service is: they take no place."""


@final
class Ports:
    """ASGI middleware: with an admin port, admin calls and metrics are answered there and nowhere else.

    Health and the description of the calls are answered on both ports, calibration and feedback only on the service's.

    Arguments:
        app: The application inside.
        admin_port: The operator's port; None answers everything on the service's one port.
    """

    def __init__(self, app: ASGIApp, admin_port: int | None) -> None:
        self.app = app
        self.admin_port = admin_port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.admin_port is not None:
            path: str = scope["path"]
            is_for_operator = path in (METRICS, MODELS) or path.startswith(f"{MODELS}/")
            is_here = is_for_operator or path in (LIVE, READY, HEALTH, OPENAPI)
            if not (is_here if _port(scope) == self.admin_port else not is_for_operator):
                message = "this call is not answered on this port. Hint: use the service's other port."
                await refusal_response(NOT_FOUND, message, {"connection": "close"})(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _port(scope: Scope) -> int | None:
    server = scope.get("server")
    return None if server is None else server[1]
