"""The HTTP connection, with bounds that an application inside cannot set."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from monocal.serving.settings import Settings

REQUESTS_PER_CONNECTION = 1000
"""Connections that live for ever would stay with the worker that happened to accept them."""

HEADER_ROOM = 4
"""Heads this many times longer than allowed are cut off unread; shorter ones get a worded refusal."""

REQUESTS_AHEAD = 16
"""Requests that a client may send on one connection before the first of them is answered."""

ADMIN_CONNECTIONS = 64
"""Open connections of a worker on the admin port."""

_BODY = b'{"error":"too many connections. Hint: try again, or add workers.","kind":"too many requests"}'
_TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class _Malformed(Exception):
    """Ends the parsing of a request that must not go on; the client gets a 400."""


def bounded_protocol(settings: Settings) -> type[asyncio.Protocol]:
    """Returns uvicorn's HTTP protocol with seven more bounds.

    A connection beyond `max_connections` gets a 429 and is closed; the admin port has an allowance of its own. A client
    that has not sent the whole head of a request `header_seconds` after its first byte (or after connecting) is cut
    off, however slowly it drips. So is one that sends more than `HEADER_ROOM * max_header_bytes` without completing a
    head, a piece of a body or a request: heads, trailers and chunk extensions without end. A request without exactly
    one host, or with `REQUESTS_AHEAD` others before it, is answered with 400. After `REQUESTS_PER_CONNECTION` requests
    an answer says that it is the connection's last: clients then connect anew, and whichever worker is idle gets them.
    And a client that leaves its answer unread for `body_seconds` is cut off.
    """

    class BoundedProtocol(HttpToolsProtocol):  # type: ignore[misc]
        _head_timer: asyncio.TimerHandle | None = None
        _answer_timer: asyncio.TimerHandle | None = None
        _n_requests = 0
        _n_bytes_without_end = 0
        _is_admin = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if self._is_one_too_many():
                transport.write(_TOO_MANY)
                transport.close()
                return
            self._await_head()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            self._n_bytes_without_end += len(data)
            super().data_received(data)
            if self._n_bytes_without_end > HEADER_ROOM * settings.max_header_bytes:
                self.send_400_response("Invalid HTTP request received.")
            elif self.cycle is None or self.cycle.response_complete:
                self._await_head()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._await_head()

        def on_headers_complete(self) -> None:
            self._n_bytes_without_end = 0
            n_hosts = sum(name == b"host" for name, _ in self.headers)
            if n_hosts > 1 or (not n_hosts and self.parser.get_http_version() == "1.1"):
                raise _Malformed
            super().on_headers_complete()
            if len(self.pipeline) > REQUESTS_AHEAD:
                raise _Malformed
            self._n_requests += 1
            if self._n_requests >= REQUESTS_PER_CONNECTION:
                self.cycle.keep_alive = False
            self._stop_head_timer()

        def on_body(self, body: bytes) -> None:
            self._n_bytes_without_end = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._n_bytes_without_end = 0
            super().on_message_complete()

        def on_response_complete(self) -> None:
            if self.transport.get_write_buffer_size() and self._answer_timer is None:
                self._answer_timer = self.loop.call_later(settings.body_seconds, self._cut_off_unread)
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_head_timer()
            if self._answer_timer is not None:
                self._answer_timer.cancel()
            super().connection_lost(exc)

        def _is_one_too_many(self) -> bool:
            if settings.admin_port is None:
                return len(self.connections) > settings.max_connections
            self._is_admin = self.server is not None and self.server[1] == settings.admin_port
            n_alike = sum(connection._is_admin == self._is_admin for connection in self.connections)
            return bool(n_alike > (ADMIN_CONNECTIONS if self._is_admin else settings.max_connections))

        def _await_head(self) -> None:
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(settings.header_seconds, self._cut_off)

        def _stop_head_timer(self) -> None:
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
