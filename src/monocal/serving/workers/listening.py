"""The sockets a service listens on: one for requests and, if asked for, one for its operator."""

from __future__ import annotations

import socket
from dataclasses import replace

from monocal.core.errors import MonocalError
from monocal.serving.settings import Settings

BACKLOG = 2048
"""Connections that may wait to be accepted."""


class ServiceStopped(MonocalError):
    """The service could not start or go on."""


def listen(settings: Settings) -> tuple[Settings, list[socket.socket]]:
    """Returns the open sockets, and the settings with the ports that were really taken."""
    opened = [_open(settings.host, settings.port)]
    try:
        settings = replace(settings, port=_port(opened[0]))
        if settings.admin_port is not None:
            opened.append(_open(settings.admin_host, settings.admin_port))
            settings = replace(settings, admin_port=_port(opened[1]))
    except ServiceStopped:
        opened[0].close()
        raise
    return settings, opened


def _port(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def _open(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's delay off only for sockets that say they are TCP; with it an answer takes 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ServiceStopped(f"cannot listen on {host}:{port} ({error.strerror}). Hint: choose another port") from error
    return listening
