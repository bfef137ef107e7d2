"""How much of everything: headers, bodies, time and requests in hand; and refusals, which say what was wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monocal.core.errors import InvalidInput
from monocal.core.threads import trim_heap
from monocal.serving.logs import log_failure
from monocal.serving.settings import Settings

KINDS = {
    400: "malformed",
    401: "no token",
    403: "not allowed",
    404: "not found",
    405: "wrong method",
    408: "too slow",
    409: "conflict",
    413: "too large",
    415: "wrong encoding",
    422: "unusable",
    429: "too many requests",
    431: "headers too large",
    500: "internal error",
}

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
_BURST_SECONDS = 10


@final
class Refusal(Exception):
    """A request that is answered with a status of class 4xx.

    Arguments:
        status: The HTTP status.
        message: For the client: what was got, what was expected, a hint.
        headers: Further response headers.
        facts: Further members of the body.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.facts = dict(facts or {})

    def response(self) -> Response:
        """Returns `{"error": message, "kind": kind}` with the status.

        Example:
            >>> Refusal(404, "there is no such path").response().body
            b'{"error":"there is no such path","kind":"not found"}'
        """
        # half a character in a client's text cannot be written as UTF-8
        message = str(self).encode("utf-8", "replace").decode()
        body = {"error": message, "kind": KINDS.get(self.status, "refused"), **self.facts}
        return Response(msgspec.json.encode(body), self.status, self.headers, media_type="application/json")


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
        self.n_in_flight = 0
        self.n_body_bytes = 0
        self._is_trim_due = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def watched_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            self._check_head(scope)
            if scope["path"] in PROBES:
                await self.app(scope, receive, watched_send)
            else:
                async with self._body(receive) as scope[BODY]:
                    await self._in_a_place(scope, receive, watched_send)
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
        if not has_begun:
            await refusal.response()(scope, receive, send)

    def _check_head(self, scope: Scope) -> None:
        self._check_port(scope)
        n_bytes = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
        encoding = length = b""
        for name, value in scope["headers"]:
            n_bytes += len(name) + len(value) + 4
            if name == b"content-length":
                length = value
            elif name == b"content-encoding":
                encoding = value
        if n_bytes > self.settings.max_header_bytes:
            raise Refusal(
                431,
                f"headers: got {n_bytes} bytes; expected at most {self.settings.max_header_bytes}. "
                "Hint: send fewer or shorter headers.",
                _CLOSE,
            )
        if encoding and encoding.lower() != b"identity":
            raise Refusal(
                415,
                "content-encoding: got a compressed body; expected it as it is. Hint: switch compression off.",
                _CLOSE,
            )
        if length:
            if not length.isdigit():
                raise Refusal(400, "content-length: expected a number. Hint: let the client set it.", _CLOSE)
            if len(length) > 15 or int(length) > self.settings.max_body_bytes:
                raise self._too_large()

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

    def _trim(self) -> None:
        """Hands what large bodies took back to the system, at most once a second."""
        self._is_trim_due = False
        trim_heap()

    @asynccontextmanager
    async def _body(self, receive: Receive) -> AsyncIterator[bytes]:
        """Yields a whole body, and counts its bytes until the end of the block."""
        counted = 0
        parts: list[bytes] = []
        n_bytes = 0
        try:
            try:
                async with asyncio.timeout(self.settings.body_seconds):
                    more = True
                    while more:
                        message = await receive()
                        if message["type"] == "http.disconnect":
                            raise ClientDisconnect
                        part = message.get("body", b"")
                        more = message.get("more_body", False)
                        n_bytes += len(part)
                        if part:
                            parts.append(part)
                        if n_bytes > self.settings.max_body_bytes:
                            raise self._too_large()
                        if n_bytes > SMALL_BYTES:
                            self._count(n_bytes - counted)
                            counted = n_bytes
            except TimeoutError:
                message_ = f"body: not whole after {self.settings.body_seconds:g} seconds. Hint: send it faster."
                raise Refusal(408, message_, _CLOSE) from None
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            yield body
        finally:
            self.n_body_bytes -= counted
            if counted and not self._is_trim_due:
                self._is_trim_due = True
                asyncio.get_running_loop().call_later(1.0, self._trim)

    def _count(self, n_more: int) -> None:
        if self.n_body_bytes + n_more > self.settings.max_bytes_in_hand:
            raise Refusal(
                429,
                f"bodies in hand: got more than {self.settings.max_bytes_in_hand} bytes in all; expected at most that. "
                "Hint: try again after a moment, or send fewer candidates per request.",
                _LATER | _CLOSE,
            )
        self.n_body_bytes += n_more

    async def _in_a_place(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.n_in_flight >= self.settings.max_in_flight:
            raise Refusal(
                429,
                f"requests in hand: got {self.n_in_flight}; expected fewer than {self.settings.max_in_flight}. "
                "Hint: try again after a moment, or add workers.",
                _LATER | _CLOSE,
            )
        holds_place = True
        self.n_in_flight += 1

        def leave() -> None:
            nonlocal holds_place
            self.n_in_flight -= holds_place
            holds_place = False

        async def leaving_send(message: Message) -> None:
            leave()
            await send(message)

        try:
            await asyncio.sleep(0)
            await self.app(scope, receive, leaving_send)
        finally:
            leave()

    def _too_large(self) -> Refusal:
        limit = self.settings.max_body_bytes
        message = f"body: got more than {limit} bytes; expected at most that. Hint: send fewer candidates per request."
        return Refusal(413, message, _CLOSE)


@final
class FeedbackRate:
    """How many labels are taken from callers without a token: a bucket that fills up to ten seconds' worth.

    With the default of 1,000 rows a second at most a tenth of the window behind the running PCOC can be replaced at
    once; the clock is monotonic, so setting the machine's time changes nothing.

    Arguments:
        per_second: Rows per second.
        clock: Tells seconds.

    Example:
        >>> now = [0.0]
        >>> rate = FeedbackRate(100, clock=lambda: now[0])
        >>> rate.take(1000), rate.take(1)
        (True, False)
        >>> now[0] = 2.0
        >>> rate.take(200), rate.take(1)
        (True, False)
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._left = per_second * _BURST_SECONDS
        self._last = clock()

    def take(self, n_rows: int) -> bool:
        """Takes rows out, or says that there are not that many."""
        now = self._clock()
        self._left = min(self.per_second * _BURST_SECONDS, self._left + (now - self._last) * self.per_second)
        self._last = now
        if n_rows > self._left:
            return False
        self._left -= n_rows
        return True
