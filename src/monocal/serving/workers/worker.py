"""One worker process: `python -m monocal.serving.workers.worker`, with orders on standard input."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

import uvicorn
from starlette.applications import Starlette

from monocal.serving.http.app import create_app
from monocal.serving.http.connection import bounded_protocol
from monocal.serving.logs import log_event, start_logging
from monocal.serving.runtime.metric_files import METRICS_FOLDER_VARIABLE, use_files_of
from monocal.serving.runtime.worker_board import WorkerBoard
from monocal.serving.settings import Settings
from monocal.serving.workers.listening import BACKLOG


@final
class FairServer(uvicorn.Server):  # type: ignore[misc]
    """Accepts one connection at a time, so that workers which share a socket share its connections, too.

    The event loop otherwise takes as many waiting connections as the socket may queue, and whoever wakes first gets
    them all. Its count is taken from the queue's length at start-up; the queue is made long again right after.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(BACKLOG)


def run_server(app: Starlette, settings: Settings, listening: list[socket.socket]) -> None:
    """Serves until a signal asks to stop; requests in hand then have `drain_seconds` to finish."""
    config = uvicorn.Config(
        app,
        http=bounded_protocol(settings),
        ws="none",
        backlog=1,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.drain_seconds,
    )
    with _signals_end_here():
        FairServer(config).run(sockets=listening)


@contextmanager
def _signals_end_here() -> Iterator[None]:
    """Keeps uvicorn's repetition of the signal that stopped it from killing a process that stopped in good order."""
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Reads the orders, serves, and stops when the supervisor is gone."""
    orders = json.loads(sys.stdin.readline())
    settings = Settings.from_json(orders["settings"])
    start_logging()
    threading.Thread(target=_stop_with_the_supervisor, daemon=True).start()
    home = Path(orders["home"])
    board = WorkerBoard(home / "board", orders["slot"])
    if METRICS_FOLDER_VARIABLE in os.environ:
        use_files_of(orders["slot"])
    listening = [socket.socket(fileno=handle) for handle in orders["sockets"]]
    run_server(create_app(settings, home=home, board=board), settings, listening)
    log_event("worker stopped", slot=orders["slot"])


def _stop_with_the_supervisor() -> None:
    # the supervisor holds the other end of this pipe: it closes when the supervisor dies, however it dies
    while sys.stdin.readline():
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
