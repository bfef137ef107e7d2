"""How much of everything: headers, bodies, time and requests in hand."""

from __future__ import annotations

import asyncio
import time
from typing import Any, final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monocal.core.errors import InvalidInput
from monocal.serving.http.refusals import (
    HEADERS_TOO_LARGE,
    MALFORMED,
    OUR_FAULT,
    TOO_LARGE,
    TOO_MANY,
    TOO_SLOW,
    WRONG_ENCODING,
    Refusal,
    refusal_response,
    unusable,
)
from monocal.serving.logs import log_failure
from monocal.serving.settings import Settings

_CLOSE = {"connection": "close"}
"""Sent with a refusal that leaves a body unread: reading on would be the work we refuse."""


@final
class Limits:
    """ASGI middleware that bounds a request before anything else sees it, and words every refusal.

    Requests in hand are counted before their first pause, and every admitted request pauses once. So when a burst
    arrives, the first `max_in_flight` are served and the others are refused at once, instead of all of them waiting.

    Arguments:
        app: The application inside.
        settings: Holds the bounds.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self.n_in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            self._check_head(scope)
            if self.n_in_flight >= self.settings.max_in_flight:
                raise Refusal(
                    TOO_MANY,
                    f"requests in hand: got {self.n_in_flight}; wanted fewer than {self.settings.max_in_flight}. "
                    "Way out: try again after a moment, or add workers.",
                    {"retry-after": "1", **_CLOSE},
                )
            self.n_in_flight += 1
            try:
                await asyncio.sleep(0)
                await self.app(scope, self._bounded(receive), watched_send)
            finally:
                self.n_in_flight -= 1
        except Refusal as refusal:
            if not started:
                await refusal.response()(scope, receive, send)
        except InvalidInput as error:
            if not started:
                await unusable(error).response()(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:
            log_failure("request failed", error, path=scope["path"] if len(scope["path"]) < 100 else "(long)")
            if not started:
                message = "the service failed on this request and has logged it. Way out: tell its operator."
                await refusal_response(OUR_FAULT, message)(scope, receive, send)

    def _check_head(self, scope: Scope) -> None:
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
                HEADERS_TOO_LARGE,
                f"headers: got {n_bytes} bytes; wanted at most {self.settings.max_header_bytes}. "
                "Way out: send fewer or shorter headers.",
                _CLOSE,
            )
        if encoding and encoding.lower() != b"identity":
            raise Refusal(
                WRONG_ENCODING,
                "content-encoding: got a compressed body; wanted it as it is. Way out: switch compression off.",
                _CLOSE,
            )
        if length:
            if not length.isdigit():
                raise Refusal(MALFORMED, "content-length: wanted a number. Way out: let the client set it.", _CLOSE)
            if len(length) > 15 or int(length) > self.settings.max_body_bytes:
                raise self._too_large()

    def _too_large(self) -> Refusal:
        return Refusal(
            TOO_LARGE,
            f"body: got more than {self.settings.max_body_bytes} bytes; wanted at most that. "
            "Way out: send fewer candidates per request.",
            _CLOSE,
        )

    def _bounded(self, receive: Receive) -> Receive:
        n_bytes = 0
        deadline = time.monotonic() + self.settings.body_seconds
        whole = False

        async def bounded_receive() -> Message:
            nonlocal n_bytes, whole
            if whole:  # only a disconnect can follow, and that may take its time
                return await receive()
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    message: dict[str, Any] = dict(await receive())
            except TimeoutError:
                raise Refusal(
                    TOO_SLOW,
                    f"body: not whole after {self.settings.body_seconds:g} seconds. Way out: send it faster.",
                    _CLOSE,
                ) from None
            n_bytes += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if n_bytes > self.settings.max_body_bytes:
                raise self._too_large()
            return message

        return bounded_receive
