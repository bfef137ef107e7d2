"""Bodies: read whole before a request takes a place, within bounds of time, length and bytes in hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import final

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from monocal.serving.http.refusals import CLOSE, TOO_LARGE, TOO_MANY, TOO_SLOW, Refusal
from monocal.serving.settings import Settings

SMALL_BYTES = 64 << 10
"""Bodies up to this length are always read; they are bounded by the number of connections."""


@final
class BodyBytes:
    """Reads bodies and knows how many bytes of large ones are in hand.

    A client may send as slowly as `body_seconds` allows; until its body is whole it holds nothing but its connection
    and the bytes it has sent. All workers together hold at most
    workers × (`max_bytes_in_hand` + `max_connections` × 64 KiB) of bodies.

    Arguments:
        settings: Holds the bounds.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.n_bytes = 0
        self.had_large = False

    @asynccontextmanager
    async def read(self, receive: Receive) -> AsyncIterator[bytes]:
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
                            raise too_large(self.settings.max_body_bytes)
                        if n_bytes > SMALL_BYTES:
                            self._count(n_bytes - counted)
                            counted = n_bytes
            except TimeoutError:
                raise Refusal(
                    TOO_SLOW,
                    f"body: not whole after {self.settings.body_seconds:g} seconds. Hint: send it faster.",
                    CLOSE,
                ) from None
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            yield body
        finally:
            self.n_bytes -= counted
            self.had_large = self.had_large or counted > 0

    def _count(self, n_more: int) -> None:
        if self.n_bytes + n_more > self.settings.max_bytes_in_hand:
            raise Refusal(
                TOO_MANY,
                f"bodies in hand: got more than {self.settings.max_bytes_in_hand} bytes in all; expected at most that. "
                "Hint: try again after a moment, or send fewer candidates per request.",
                {"retry-after": "1", **CLOSE},
            )
        self.n_bytes += n_more


def too_large(max_body_bytes: int) -> Refusal:
    """Words the refusal of a body that is too long."""
    return Refusal(
        TOO_LARGE,
        f"body: got more than {max_body_bytes} bytes; expected at most that. Hint: send fewer candidates per request.",
        CLOSE,
    )
