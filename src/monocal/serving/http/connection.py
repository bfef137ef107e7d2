"""The HTTP connection, with bounds that an application inside cannot set."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from monocal.serving.settings import Settings

REQUESTS_PER_CONNECTION = 1000
"""Connections that live for ever would stay with the worker that happened to accept them."""

ADMIN_CONNECTIONS = 64
"""Open connections of a worker on the admin port."""

_BODY = b'{"error":"too many connections. Way out: try again, or add workers.","kind":"too many requests"}'
_TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


def bounded_protocol(settings: Settings) -> type[asyncio.Protocol]:
    """Returns uvicorn's HTTP protocol with four more bounds.

    A connection beyond `max_connections` gets a 429 and is closed; the admin port has an allowance of its own. A client
    that has not sent the whole head of a request `header_seconds` after its first byte (or after connecting) is cut
    off, however slowly it drips. After `REQUESTS_PER_CONNECTION` requests an answer says that it is the connection's
    last, as if the client had asked for that: clients then connect anew, and whichever worker is idle gets them. And a
    client that leaves its answer unread for `body_seconds` is cut off.
    """

    class BoundedProtocol(H11Protocol):  # type: ignore[misc]
        _head_timer: asyncio.TimerHandle | None = None
        _n_requests = 0
        _counted: Any = None
        _answer_timer: asyncio.TimerHandle | None = None
        _is_admin = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if self._is_one_too_many():
                transport.write(_TOO_MANY)
                transport.close()
                return
            self._await_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._count_request()
            if self.cycle is not None and not self.cycle.response_complete:
                self._head_is_there()
            elif self._head_timer is None:
                self._await_head()

        def on_response_complete(self) -> None:
            if self.transport.get_write_buffer_size() and self._answer_timer is None:
                self._answer_timer = self.loop.call_later(settings.body_seconds, self._cut_off_unread)
            super().on_response_complete()
            self._count_request()
            # a pipelined request may have begun inside the call above
            if self.cycle is None or self.cycle.response_complete:
                self._head_is_there()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_is_there()
            if self._answer_timer is not None:
                self._answer_timer.cancel()
            super().connection_lost(exc)

        def _is_one_too_many(self) -> bool:
            if settings.admin_port is None:
                return len(self.connections) > settings.max_connections
            self._is_admin = self.server is not None and self.server[1] == settings.admin_port
            n_alike = sum(one._is_admin == self._is_admin for one in self.connections)
            return bool(n_alike > (ADMIN_CONNECTIONS if self._is_admin else settings.max_connections))

        def _count_request(self) -> None:
            if self.cycle is self._counted:
                return
            self._counted = self.cycle
            self._n_requests += 1
            if self._n_requests >= REQUESTS_PER_CONNECTION:
                # its task has not run yet, and answers a request with this header by closing
                self.scope["headers"].append((b"connection", b"close"))

        def _await_head(self) -> None:
            self._head_timer = self.loop.call_later(settings.header_seconds, self._cut_off)

        def _head_is_there(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _cut_off(self) -> None:
            self._head_timer = None
            if not self.transport.is_closing():
                self.transport.close()

        def _cut_off_unread(self) -> None:
            self._answer_timer = None
            if self.transport.get_write_buffer_size():
                self.transport.abort()

    return BoundedProtocol
