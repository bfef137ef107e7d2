"""Everything that can be set about a service: declared once, checked by msgspec, readable from the environment."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Self, final, get_args

import msgspec
from msgspec import Meta

from monocal.core.errors import InvalidInput, UnknownName, check_known
from monocal.serving.engine import MissingFields

SHADOW_NAME = "shadow"
"""The name under which admin calls reach the shadow model."""

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHORTEST_TOKEN = 16
_VARIABLE = "MONOCAL_{}"


@final
class Settings(msgspec.Struct, frozen=True):
    """What a service serves, where, and how much of it at a time.

    Texts are taken for numbers and paths, as environment variables give them.

    Arguments:
        model: The artefact to serve, or a registry: its pointer is then followed, with or without `watch`.
        name: How clients call the model; by default the folder's name.
        host: Address to listen on. Loopback by default: nothing outside the machine can connect.
        port: Port to listen on; 0 takes a free one and logs it.
        workers: Processes that share the port.
        admin_port: A port of its own for admin calls and metrics, which are then not answered on `port`; 0 takes a free
            one. Health answers on both.
        admin_host: Address of the admin port; loopback by default.
        token: Secret that admin calls and feedback must carry, in printable ASCII; without one they are switched off.
            White space around it, as a mounted secret has, does not belong to it.
        watch: Whether the folder is polled for a new model.
        watch_seconds: How often, and how soon at the latest every worker serves a model that one of them loaded.
        shadow: A second model that scores the same traffic without answering it.
        missing_fields: `"refuse"` requests without one of the model's fields, or take its values as `"unseen"`.
        max_rows: Most candidates in one request.
        max_body_bytes: Longest body.
        max_header_bytes: Longest request line and headers together.
        max_in_flight: Requests a worker has read and not answered yet; the next one is answered with 429.
        max_bytes_in_hand: Bytes of large bodies (beyond 64 KiB) that a worker holds at a time, over all requests; what
            would exceed it is answered with 429.
        max_connections: Open connections of a worker; the next one is answered with 429.
        header_seconds: Time to send a request's headers.
        body_seconds: Time to send its body.
        keep_alive_seconds: How long an idle connection stays open.
        drain_seconds: Time that requests in hand get to finish at shutdown.
        hang_seconds: How long one of several workers may stand still before it is replaced.
        access_log: Whether every request is logged (path, status, rows and duration; never values).

    Example:
        >>> settings = Settings("models/ads", workers="2", token="0123456789abcdef\\n")
        >>> settings.name, settings.workers, settings.token
        ('ads', 2, '0123456789abcdef')
        >>> Settings("models/ads", workers=0)
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: workers: got 0; expected int >= 1. Hint: leave it out for the default.
    """

    model: Path
    name: str = ""
    host: str = "127.0.0.1"
    port: Port = 8080
    workers: Count = 1
    admin_port: Port | None = None
    admin_host: str = "127.0.0.1"
    token: str | None = None
    watch: bool = False
    watch_seconds: Seconds = 1.0
    shadow: Path | None = None
    missing_fields: MissingFields = "refuse"
    max_rows: Count = 5_000
    max_body_bytes: Count = 8 << 20
    max_header_bytes: Count = 16 << 10
    max_in_flight: Count = 256
    max_bytes_in_hand: Count = 64 << 20
    max_connections: Count = 1024
    header_seconds: Seconds = 10.0
    body_seconds: Seconds = 10.0
    keep_alive_seconds: Count = 30
    drain_seconds: Count = 30
    hang_seconds: Seconds = 30.0
    access_log: bool = False

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            value = _checked(field.name, getattr(self, field.name), field.type)
            msgspec.structs.force_setattr(self, field.name, value)
        if not self.name:
            msgspec.structs.force_setattr(self, "name", self.model.resolve().name)
        if not _PLAIN_NAME.fullmatch(self.name) or self.name == SHADOW_NAME:
            raise InvalidInput.of(
                "name", repr(self.name), f"letters, digits, dots and dashes, not {SHADOW_NAME!r}", "pass name="
            )
        if self.token is not None:
            msgspec.structs.force_setattr(self, "token", _checked_token(self.token))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "token")
        return f"Settings({', '.join(shown)})"

    @classmethod
    def from_environment(cls, model: str | Path, **given: Any) -> Self:
        """Returns settings; what is not given, or None, is taken from a variable such as `MONOCAL_MAX_ROWS`.

        Arguments:
            model: What to serve.
            given: The other settings.
        """
        known = cls.__struct_fields__[1:]
        for name in given:
            check_known("setting", name, known)
        found = {name: os.environ.get(_VARIABLE.format(name.upper())) for name in known} | {
            name: value for name, value in given.items() if value is not None
        }
        return cls(Path(model), **{name: value for name, value in found.items() if value is not None})


def _checked(name: str, value: Any, kind: Any) -> Any:
    """Returns a value as its declared type, or says what was expected."""
    try:
        return msgspec.convert(value, kind, strict=False, dec_hook=lambda wanted, given: wanted(given))
    except msgspec.ValidationError as error:
        if kind is MissingFields:
            raise UnknownName.among(name, str(value), get_args(MissingFields)) from None
        expected = str(error).removeprefix("Expected ").partition(", got")[0].replace("`", "")
        raise InvalidInput.of(name, value, expected, "leave it out for the default") from None


def _checked_token(token: str) -> str:
    token = token.strip()
    if len(token) < _SHORTEST_TOKEN or not (token.isascii() and token.isprintable()):
        expected = f"at least {_SHORTEST_TOKEN} characters of printable ASCII, which an HTTP header can carry"
        raise InvalidInput.of("token", f"{len(token)} characters", expected, "draw one with secrets.token_urlsafe()")
    return token
