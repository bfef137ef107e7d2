"""Starts the service: in this process, or in several under a supervisor."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from monocal.serving.logs import log_event, start_logging
from monocal.serving.settings import Settings
from monocal.serving.workers.listening import ServiceStopped, listen
from monocal.serving.workers.supervisor import Supervisor


def serve(
    model_folder: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    workers: int = 1,
    token: str | None = None,
    watch: bool = False,
    shadow: str | Path | None = None,
    **others: Any,
) -> None:
    """Serves a model until it is told to stop (SIGTERM or SIGINT); requests in hand are finished first.

    Arguments:
        model_folder: The artefact to serve, or a registry whose pointer is followed.
        host: Address to listen on; loopback by default.
        port: Port to listen on; 0 takes a free one and logs it.
        workers: Processes that share the port.
        token: Secret that admin calls and feedback must carry; without one admin calls are switched off.
        watch: Whether the folder is polled for a new model.
        shadow: Folder of a second model that scores the same traffic without answering it.
        others: The other attributes of `Settings`.
    """
    run(
        Settings(
            Path(model_folder),
            host=host,
            port=port,
            workers=workers,
            token=token,
            watch=watch,
            shadow_folder=None if shadow is None else Path(shadow),
            **others,
        )
    )


def run(settings: Settings) -> None:
    """Serves in this process if one worker is enough, otherwise starts and supervises several."""
    start_logging()
    settings, listening = listen(settings)
    with ExitStack() as stack:
        for listener in listening:
            stack.enter_context(listener)
        admin = {} if settings.admin_port is None else {"admin_port": settings.admin_port}
        log_event(
            "listening", host=settings.host, port=settings.port, workers=settings.workers, model=settings.name, **admin
        )
        if settings.workers == 1:
            # a supervisor has no use for these, and starts sooner without
            from monocal.serving.http.app import create_app
            from monocal.serving.workers.worker import run_server

            run_server(create_app(settings), settings, listening)
        else:
            home = _home()
            try:
                Supervisor(settings, listening, home).run()
            finally:
                shutil.rmtree(home, ignore_errors=True)
    log_event("stopped")


def _home() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="monocal-"))
    except OSError as error:
        raise ServiceStopped(
            f"the temporary folder cannot be used ({error.strerror}). Hint: free it, or set TMPDIR"
        ) from error
