"""How much of everything: headers, bodies, time and requests in hand."""

from __future__ import annotations

import asyncio
from typing import final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monocal.core.errors import InvalidInput
from monocal.serving.http.body_bytes import BodyBytes, too_large
from monocal.serving.http.ports import PROBES
from monocal.serving.http.refusals import (
    CLOSE,
    HEADERS_TOO_LARGE,
    MALFORMED,
    OUR_FAULT,
    TOO_MANY,
    WRONG_ENCODING,
    Refusal,
    refusal_response,
    unusable,
)
from monocal.serving.logs import log_failure
from monocal.serving.settings import Settings


@final
class Limits:
    """ASGI middleware that bounds a request before anything else sees it, and words every refusal.

    A body is read whole before its request takes a place, and the place is free again when the answer begins: neither
    a client that sends slowly nor one that reads slowly holds one. Health and metrics take no place at all. Every
    admitted request pauses once, so when a burst arrives, the first `max_in_flight` are served and the others are
    refused at once, instead of all of them waiting.

    Arguments:
        app: The application inside.
        settings: Holds the bounds.
        bodies: Reads bodies; None makes one from the settings.
    """

    def __init__(self, app: ASGIApp, settings: Settings, bodies: BodyBytes | None = None) -> None:
        self.app = app
        self.settings = settings
        self.bodies = bodies or BodyBytes(settings)
        self.n_in_flight = 0

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
                async with self.bodies.read(receive) as body:
                    await self._in_a_place(scope, _replayed(body, receive), watched_send)
        except Refusal as refusal:
            if not has_begun:
                await refusal.response()(scope, receive, send)
        except InvalidInput as error:
            if not has_begun:
                await unusable(error).response()(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:
            log_failure("request failed", error, path=scope["path"] if len(scope["path"]) < 100 else "(long)")
            if not has_begun:
                message = "the service failed on this request and has logged it. Hint: tell its operator."
                await refusal_response(OUR_FAULT, message)(scope, receive, send)

    async def _in_a_place(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.n_in_flight >= self.settings.max_in_flight:
            raise Refusal(
                TOO_MANY,
                f"requests in hand: got {self.n_in_flight}; expected fewer than {self.settings.max_in_flight}. "
                "Hint: try again after a moment, or add workers.",
                {"retry-after": "1", **CLOSE},
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
                f"headers: got {n_bytes} bytes; expected at most {self.settings.max_header_bytes}. "
                "Hint: send fewer or shorter headers.",
                CLOSE,
            )
        if encoding and encoding.lower() != b"identity":
            raise Refusal(
                WRONG_ENCODING,
                "content-encoding: got a compressed body; expected it as it is. Hint: switch compression off.",
                CLOSE,
            )
        if length:
            if not length.isdigit():
                raise Refusal(MALFORMED, "content-length: wanted a number. Hint: let the client set it.", CLOSE)
            if len(length) > 15 or int(length) > self.settings.max_body_bytes:
                raise too_large(self.settings.max_body_bytes)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that gives the whole body first."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:  # only a disconnect can follow
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
