"""Calibrated, fused scores for requests: the engine (no HTTP) and the service around it.

Importing this package loads neither the web server nor torch; each part is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monocal.serving.app import create_app as create_app
    from monocal.serving.app import run as run
    from monocal.serving.app import serve as serve
    from monocal.serving.engine import Answer as Answer
    from monocal.serving.engine import Engine as Engine
    from monocal.serving.engine import Request as Request
    from monocal.serving.settings import Settings as Settings

_HOMES = {
    "Engine": "engine",
    "Request": "engine",
    "Answer": "engine",
    "Settings": "settings",
    "create_app": "app",
    "serve": "app",
    "run": "app",
}

__all__ = ["Engine", "Request", "Answer", "Settings", "create_app", "serve", "run"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'monocal.serving' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    from importlib import import_module

    return getattr(import_module(f"monocal.serving.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
