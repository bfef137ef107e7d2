"""Everything that can be set about a service, checked once."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final, get_args

from monocal.core.errors import InvalidInput, UnknownName
from monocal.serving.engine import MissingFields

SHADOW_NAME = "shadow"
"""The name under which admin calls reach the shadow model."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@final
@dataclass(frozen=True)
class Settings:
    """What a service serves, where, and how much of it at a time.

    Attributes:
        model_folder: The artefact to serve, or a registry: its pointer is then followed, with or without `watch`.
        name: How clients call the model; by default the folder's name.
        host: Address to listen on. Loopback by default: nothing outside the machine can connect.
        port: Port to listen on; 0 takes a free one and logs it.
        workers: Processes that share the port.
        admin_port: A port of its own for admin calls and metrics, which are then not answered on `port`; 0 takes a free
            one. Health answers on both.
        admin_host: Address of the admin port; loopback by default.
        token: Secret that admin calls and feedback must carry; without one admin calls are switched off and feedback
            is taken from anybody, up to a rate.
        watch: Whether the folder is polled for a new model.
        watch_seconds: How often.
        shadow_folder: A second model that scores the same traffic without answering it.
        missing_fields: `"refuse"` requests without one of the model's fields, or take its values as `"unseen"`.
        max_rows: Most candidates in one request.
        max_body_bytes: Longest body.
        max_header_bytes: Longest request line and headers together.
        max_in_flight: Requests a worker has read and not answered yet; the next one is told to come back (429).
        max_bytes_in_hand: Bytes of large bodies (beyond 64 KiB) that a worker holds at a time, over all requests; what
            would exceed it is told to come back (429).
        max_connections: Open connections of a worker; the next one is told to come back (429).
        header_seconds: Time to send a request's headers.
        body_seconds: Time to send its body.
        keep_alive_seconds: How long an idle connection stays open.
        drain_seconds: Time that requests in hand get to finish at shutdown.
        hang_seconds: How long a worker's event loop may stand still before the supervisor replaces the worker.
        feedback_rows_per_second: Labels that a worker takes without a token; 0 takes none.
        access_log: Whether every request is logged (path, status, rows and duration; never values).
    """

    model_folder: Path
    name: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    admin_port: int | None = None
    admin_host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    watch: bool = False
    watch_seconds: float = 1.0
    shadow_folder: Path | None = None
    missing_fields: MissingFields = "refuse"
    max_rows: int = 5_000
    max_body_bytes: int = 8 << 20
    max_header_bytes: int = 16 << 10
    max_in_flight: int = 256
    max_bytes_in_hand: int = 64 << 20
    max_connections: int = 1024
    header_seconds: float = 10.0
    body_seconds: float = 10.0
    keep_alive_seconds: int = 30
    drain_seconds: int = 30
    hang_seconds: float = 30.0
    feedback_rows_per_second: int = 1_000
    access_log: bool = False

    def __post_init__(self) -> None:
        set_value = object.__setattr__
        set_value(self, "model_folder", Path(self.model_folder))
        if self.shadow_folder is not None:
            set_value(self, "shadow_folder", Path(self.shadow_folder))
        if not self.name:
            set_value(self, "name", self.model_folder.resolve().name)
        if not _PLAIN_NAME.fullmatch(self.name) or self.name == SHADOW_NAME:
            raise InvalidInput.of(
                "name", repr(self.name), f"letters, digits, dots and dashes, not {SHADOW_NAME!r}", "pass name="
            )
        if self.missing_fields not in get_args(MissingFields):
            raise UnknownName.among("missing_fields", self.missing_fields, get_args(MissingFields))
        if self.token is not None and len(self.token) < 16:
            raise InvalidInput.of(
                "token", f"{len(self.token)} characters", "at least 16", "draw one with secrets.token_urlsafe()"
            )
        for what, port in (("port", self.port), ("admin_port", self.admin_port or 0)):
            if not 0 <= port < 65536:
                raise InvalidInput.of(what, port, "0 to 65535", "0 takes a free port")
        if self.feedback_rows_per_second < 0:
            raise InvalidInput.of(
                "feedback_rows_per_second",
                self.feedback_rows_per_second,
                "0 or more",
                "0 takes no labels without a token",
            )
        positive = [
            *("workers", "watch_seconds", "max_rows", "max_body_bytes", "max_header_bytes", "max_in_flight"),
            *("max_connections", "header_seconds", "body_seconds", "keep_alive_seconds", "drain_seconds"),
            *("max_bytes_in_hand", "hang_seconds"),
        ]
        for name in positive:
            if not getattr(self, name) > 0:
                raise InvalidInput.of(name, getattr(self, name), "a positive number", "leave it out for the default")

    def to_json(self) -> str:
        """Returns the settings as one line, for a worker process."""
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Undoes `to_json`.

        Example:
            >>> settings = Settings(Path("models/ads"), workers=2)
            >>> settings.name, Settings.from_json(settings.to_json()) == settings
            ('ads', True)
        """
        values: dict[str, Any] = json.loads(text)
        return cls(**values)
