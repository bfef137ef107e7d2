"""Starts the service: uvicorn's server in this process, or uvicorn's own workers under its supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from monocal.core.errors import MonocalError
from monocal.serving.app import create_app
from monocal.serving.logs import LOGGING, log_event
from monocal.serving.settings import Settings

BACKLOG = 2048
"""Connections that may wait to be accepted."""

_HEADER_ROOM = 4
"""Heads this many times longer than allowed are cut off unread; shorter ones get a worded refusal."""

_REQUESTS_AHEAD = 16
"""Requests that a client may send on one connection before the first of them is answered."""

_BODY = b'{"error":"too many connections. Hint: try again, or add workers.","kind":"too many requests"}'
_TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class _Malformed(Exception):
    """Ends the parsing of a request that must not go on; the client gets a 400."""


class ServiceStopped(MonocalError):
    """The service could not start or go on."""


def serve(model: str | Path, **settings: Any) -> None:
    """Serves a model until SIGTERM or SIGINT stops it; requests in hand are finished first.

    With several workers, a script calls this under `if __name__ == "__main__":`, as for every use of multiprocessing:
    workers import the script, too.

    Arguments:
        model: The artefact to serve, or a registry whose pointer is followed.
        settings: The other arguments of `Settings`: host, port, workers, token, watch, shadow, …
    """
    run(Settings(Path(model), **settings))


def run(settings: Settings) -> None:
    """Serves in this process if one worker is enough, otherwise in several that share the port.

    A worker that dies, or that does not answer uvicorn's health check for `hang_seconds`, is replaced. Requests that a
    killed worker had in hand are lost to their clients (connection reset). If a worker cannot start, the service stops
    with the reason in the log, rather than trying for ever.
    """
    settings, sockets = listen(settings)
    with ExitStack() as stack:
        for opened in sockets:
            stack.enter_context(opened)
        home = Path(stack.enter_context(_temporary_folder()))
        config = ServerConfig(settings, home)
        admin = {} if settings.admin_port is None else {"admin_port": settings.admin_port}
        log_event(
            "listening", host=settings.host, port=settings.port, workers=settings.workers, model=settings.name, **admin
        )
        if settings.workers == 1:
            stack.enter_context(_signals_end_here())
            uvicorn.Server(config).run(sockets=sockets)
        else:
            _run_workers(config, sockets, home)
    log_event("stopped")


class ServerConfig(uvicorn.Config):  # type: ignore[misc]
    """How uvicorn runs the application, in every process; it is what a worker is started with.

    Arguments:
        settings: The service's settings.
        home: A folder for copies of models, the same for all workers.
    """

    def __init__(self, settings: Settings, home: Path) -> None:
        self.settings = settings
        super().__init__(
            partial(create_app, settings, home),
            factory=True,
            workers=settings.workers,
            http=BoundedProtocol,
            ws="none",
            lifespan="on",
            backlog=BACKLOG,
            log_config=LOGGING,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.drain_seconds,
            timeout_worker_healthcheck=settings.hang_seconds,
        )


class Workers(Multiprocess):  # type: ignore[misc]
    """uvicorn's supervisor, which notices the end of a worker at once."""

    def keep_subprocess_alive(self) -> None:
        for process in self.processes:
            # with the worker's end of the pipe open here, too, a health check waits in vain for one that has died
            process.child_conn.close()
        super().keep_subprocess_alive()


class BoundedProtocol(HttpToolsProtocol):  # type: ignore[misc]
    """uvicorn's HTTP protocol with bounds that an application inside cannot set.

    A connection beyond `max_connections` gets a 429 and is closed. A client that has not sent the whole head of a
    request `header_seconds` after its first byte (or after connecting) is cut off, however slowly it drips. So is one
    that sends more than four times `max_header_bytes` without completing a head, a piece of a body or a request: heads,
    trailers and chunk extensions without end; and one that leaves its answer unread for `body_seconds`. A request
    without exactly one host, or with `_REQUESTS_AHEAD` others before it, is answered with 400.
    """

    def __init__(self, config: ServerConfig, *arguments: Any, **others: Any) -> None:
        super().__init__(config, *arguments, **others)
        self._settings = config.settings
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
        n_hosts = sum(name == b"host" for name, _ in self.headers)
        if n_hosts > 1 or (not n_hosts and self.parser.get_http_version() == "1.1"):
            raise _Malformed
        super().on_headers_complete()
        if len(self.pipeline) > _REQUESTS_AHEAD:
            raise _Malformed
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


def listen(settings: Settings) -> tuple[Settings, list[socket.socket]]:
    """Returns the open sockets, and the settings with the ports that were really taken."""
    opened = [_open(settings.host, settings.port)]
    try:
        settings = msgspec.structs.replace(settings, port=opened[0].getsockname()[1])
        if settings.admin_port is not None:
            opened.append(_open(settings.admin_host, settings.admin_port))
            settings = msgspec.structs.replace(settings, admin_port=opened[1].getsockname()[1])
    except ServiceStopped:
        opened[0].close()
        raise
    return settings, opened


def _open(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's delay off only for sockets that say they are TCP; with it an answer takes 40 ms
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise ServiceStopped(f"cannot listen on {host}:{port} ({error.strerror}). Hint: choose another port") from error
    return opened


def _run_workers(config: ServerConfig, sockets: list[socket.socket], home: Path) -> None:
    """Runs uvicorn's supervisor; what workers find in their environment is set before they start."""
    metrics = home / "metrics"
    metrics.mkdir()
    # a request is scored on one thread; workers are the parallelism
    os.environ.update(PROMETHEUS_MULTIPROC_DIR=str(metrics), OMP_NUM_THREADS="1")
    supervisor = Workers(config, sockets)
    supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise ServiceStopped("a worker could not start; the log lines above say why")


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="monocal-")
    except OSError as error:
        raise ServiceStopped(
            f"the temporary folder cannot be used ({error.strerror}). Hint: free it, or set TMPDIR"
        ) from error


@contextmanager
def _signals_end_here() -> Iterator[None]:
    """Keeps uvicorn's repetition of the signal that stopped it from killing a process that stopped in good order."""
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
