"""How much of everything: connections, headers, bodies, time and requests in hand; and refusals, which say why.

`BoundedProtocol` bounds what a client may do on a connection, `Limits` what a whole request may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from monocal.core.errors import InvalidInput
from monocal.core.process import trim_heap
from monocal.serving.settings import Settings
from monocal.serving.telemetry import log_failure

JSON = "application/json"
HEALTH, METRICS, OPENAPI, MODELS = "/healthz", "/metrics", "/openapi.json", "/v1/models"

PROBES = frozenset({HEALTH, METRICS})
"""Calls without a body that have to be answered however busy the service is: they take no place."""

BODY = "monocal.body"
"""Where a request's scope holds its whole body."""

SMALL_BYTES = 64 << 10
"""Bodies up to this length are always read; they are bounded by the number of connections."""

_CLOSE = {"connection": "close"}
"""Sent with a refusal that leaves a body unread: reading on would be the work we refuse."""
_LATER = {"retry-after": "1"}

_HEADER_ROOM = 4
"""Heads this many times longer than allowed are cut off unread; shorter ones get a worded refusal."""

_REQUESTS_AHEAD = 16
"""Requests that a client may send on one connection before the first of them is answered."""

_TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
    b'{"error":"too many connections. Hint: try again, or add workers."}'
)


@final
class Refusal(Exception):
    """A request that is answered with a status of class 4xx.

    Arguments:
        status: The HTTP status.
        message: For the client: what was got, what was expected, a hint.
        headers: Further response headers.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers

    def response(self) -> Response:
        """Returns `{"error": message}` with the status.

        Example:
            >>> Refusal(404, "there is no such path").response().body
            b'{"error":"there is no such path"}'
        """
        # half a character in a client's text cannot be written as UTF-8
        message = str(self).encode("utf-8", "replace").decode()
        return Response(msgspec.json.encode({"error": message}), self.status, self.headers, media_type=JSON)


@final
class Limits:
    """ASGI middleware that bounds a request before anything else sees it, and words every refusal.

    A body is read whole before its request takes a place, and the place is free again when the answer begins: neither
    a client that sends slowly nor one that reads slowly holds one. Health and metrics take no place at all. Every
    admitted request pauses once, so when a burst arrives, the first `max_in_flight` are served and the others are
    refused at once, instead of all of them waiting. Of bodies a worker holds at most
    `max_bytes_in_hand` + `max_connections` × 64 KiB.

    With an admin port, admin calls and metrics are answered there and nowhere else.

    Arguments:
        app: The application inside.
        settings: Holds the bounds.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self.in_hand: set[int] = set()
        self.n_body_bytes = 0
        self._trim: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def leaving_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            self.in_hand.discard(id(scope))
            await send(message)

        try:
            self._check_port(scope)
            self._check_head(scope)
            if scope["path"] in PROBES:
                await self.app(scope, receive, leaving_send)
            else:
                async with self._body(receive) as scope[BODY]:
                    self._take_place(scope)
                    await asyncio.sleep(0)
                    await self.app(scope, receive, leaving_send)
            return
        except ClientDisconnect:
            return
        except Refusal as error:
            refusal = error
        except InvalidInput as error:
            refusal = Refusal(422, str(error))
        except Exception as error:
            log_failure("request failed", error, path=scope["path"] if len(scope["path"]) < 100 else "(long)")
            message = "the service failed on this request and has logged it. Hint: tell its operator."
            refusal = Refusal(500, message)
        finally:
            self.in_hand.discard(id(scope))
        if not has_begun:
            await refusal.response()(scope, receive, send)

    def _check_port(self, scope: Scope) -> None:
        admin_port = self.settings.admin_port
        if admin_port is None:
            return
        path: str = scope["path"]
        is_for_operator = path in (METRICS, MODELS) or path.startswith(f"{MODELS}/")
        is_on_admin_port = (scope.get("server") or ("", None))[1] == admin_port
        if is_for_operator != is_on_admin_port and path not in (HEALTH, OPENAPI):
            message = "this call is not answered on this port. Hint: use the service's other port."
            raise Refusal(404, message, _CLOSE)

    def _check_head(self, scope: Scope) -> None:
        n_bytes = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
        n_bytes += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        limit = self.settings.max_header_bytes
        if n_bytes > limit:
            message = f"headers: got {n_bytes} bytes; expected at most {limit}. Hint: send fewer or shorter headers."
            raise Refusal(431, message, _CLOSE)
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity").lower() not in (b"identity", b""):
            message = "content-encoding: got a compressed body; expected it as it is. Hint: switch compression off."
            raise Refusal(415, message, _CLOSE)
        self._check_length(int(headers.get(b"content-length", 0)))

    def _check_length(self, n_bytes: int) -> None:
        limit = self.settings.max_body_bytes
        if n_bytes > limit:
            message = f"body: got more than {limit} bytes; expected at most that. Hint: send fewer candidates."
            raise Refusal(413, message, _CLOSE)

    @asynccontextmanager
    async def _body(self, receive: Receive) -> AsyncIterator[bytes]:
        """Yields a whole body, and counts its bytes until the end of the block."""
        counted = 0
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(self.settings.body_seconds):
                    more = True
                    while more:
                        message = await receive()
                        if message["type"] == "http.disconnect":
                            raise ClientDisconnect
                        body += message.get("body", b"")
                        more = message.get("more_body", False)
                        self._check_length(len(body))
                        if len(body) > SMALL_BYTES:
                            self._count(len(body) - counted)
                            counted = len(body)
            except TimeoutError:
                said = f"body: not whole after {self.settings.body_seconds:g} seconds. Hint: send it faster."
                raise Refusal(408, said, _CLOSE) from None
            yield bytes(body)
        finally:
            self.n_body_bytes -= counted
            loop = asyncio.get_running_loop()
            if counted and (self._trim is None or self._trim.when() < loop.time()):
                # what large bodies took goes back to the system, at most once a second
                self._trim = loop.call_later(1.0, trim_heap)

    def _count(self, n_more: int) -> None:
        limit = self.settings.max_bytes_in_hand
        if self.n_body_bytes + n_more > limit:
            said = f"bodies in hand: got more than {limit} bytes in all; expected at most that. Hint: try again, or"
            raise Refusal(429, f"{said} send fewer candidates per request.", _LATER | _CLOSE)
        self.n_body_bytes += n_more

    def _take_place(self, scope: Scope) -> None:
        limit = self.settings.max_in_flight
        if len(self.in_hand) >= limit:
            message = f"requests in hand: got {limit}; expected fewer. Hint: try again after a moment, or add workers."
            raise Refusal(429, message, _LATER | _CLOSE)
        self.in_hand.add(id(scope))


@final
class BoundedProtocol(HttpToolsProtocol):  # type: ignore[misc]
    """uvicorn's HTTP protocol with bounds that an application inside cannot set.

    A connection beyond `max_connections` gets a 429 and is closed. A client that has not sent the whole head of a
    request `header_seconds` after its first byte (or after connecting) is cut off, however slowly it drips. So is one
    that sends more than four times `max_header_bytes` without completing a head, a piece of a body or a request: heads,
    trailers and chunk extensions without end; and one that leaves its answer unread for `body_seconds`. A request with
    more than `_REQUESTS_AHEAD` others before it is answered with 400.
    """

    def __init__(self, settings: Settings, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self._settings = settings
        self._head_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None
        self._n_bytes_without_end = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self._settings.max_connections:
            transport.write(_TOO_MANY)
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._n_bytes_without_end += len(data)
        super().data_received(data)
        if self._n_bytes_without_end > _HEADER_ROOM * self._settings.max_header_bytes:
            self.send_400_response("Invalid HTTP request received.")
        elif self.cycle is None or self.cycle.response_complete:
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._n_bytes_without_end = 0
        super().on_headers_complete()
        if len(self.pipeline) > _REQUESTS_AHEAD:
            raise ValueError("too many requests ahead")  # which ends the parsing
        self._stop_head_timer()

    def on_body(self, body: bytes) -> None:
        self._n_bytes_without_end = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._n_bytes_without_end = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.transport.get_write_buffer_size() and self._answer_timer is None:
            self._answer_timer = self.loop.call_later(self._settings.body_seconds, self._cut_off_unread)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        if self._answer_timer is not None:
            self._answer_timer.cancel()
        super().connection_lost(exc)

    def _cut_off_unread(self) -> None:
        self._answer_timer = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._settings.header_seconds, self.transport.close)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
