"""monocal serve."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from monocal.cli import arguments
from monocal.cli.options import Debug, ModelArgument

EXAMPLES = """
monocal serve model/
monocal serve model/ --port 8080 --workers 2 --watch
monocal serve model/ --shadow candidate/ --set max_rows=1000
monocal serve registry/ --workers 2
"""

TOKEN_VARIABLE = "MONOCAL_TOKEN"


def serve(
    model: ModelArgument,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; this machine alone by default.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8080,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that share the port.")] = 1,
    admin_port: Annotated[
        int | None,
        typer.Option("--admin-port", min=0, max=65535, help="A port of its own for admin calls and metrics."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Take over a new model when the folder changes.")] = False,
    shadow: Annotated[
        Path | None,
        typer.Option("--shadow", metavar="MODEL", help="A second model that scores the traffic without answering."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help=f"Secret of admin calls and feedback; or set {TOKEN_VARIABLE}."
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another setting of the service, such as max_rows=1000."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Answers calibration requests over HTTP until stopped.

    Of a registry the service serves the generation in force, and follows every promotion and rollback.
    SIGTERM and Ctrl-C let requests in hand finish. Logs are JSON lines on standard error. Admin calls are off without a
    token, which is never taken from the command line, where other users could read it.
    """
    from dataclasses import fields

    from monocal.core.errors import UnknownName
    from monocal.serving import Settings
    from monocal.serving import serve as start

    known = [setting.name for setting in fields(Settings)]
    others = arguments.settings(options)
    for name in others:
        if name not in known:
            raise UnknownName.among("setting", name, known)
    token = os.environ.get(TOKEN_VARIABLE) if token_file is None else token_file.read_text(encoding="utf-8").strip()
    others.setdefault("admin_port", admin_port)
    start(model, host=host, port=port, workers=workers, token=token, watch=watch, shadow=shadow, **others)
