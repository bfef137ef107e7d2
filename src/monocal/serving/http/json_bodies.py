"""JSON bodies: parsed, and their parts checked for what they are, with refusals that name the part."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import Floats
from monocal.serving.http.refusals import MALFORMED, TOO_LARGE, Refusal

NUMBERS = {int, float}
"""What a JSON number may be once it is read; true and false are none."""

_LARGE_BYTES = 1 << 20
_JSON_NAMES = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


def parse_object(body: bytes) -> dict[str, Any]:
    """Reads a JSON object.

    Example:
        >>> parse_object(b'{"scores": {"click": [0.1]}}')
        {'scores': {'click': [0.1]}}
        >>> parse_object(b'{"scores": NaN}')
        Traceback (most recent call last):
        ...
        monocal.serving.http.refusals.Refusal: body: got malformed JSON (...); expected a JSON object. ...
    """
    try:
        with _collector_paused(len(body) > _LARGE_BYTES):
            value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(
            MALFORMED,
            f"body: got malformed JSON ({error}); expected a JSON object. "
            "Hint: note that JSON has no NaN and no infinity.",
        ) from None
    return object_of(value, "body")


@contextmanager
def _collector_paused(is_needed: bool) -> Iterator[None]:
    """Keeps the garbage collector from walking through millions of new lists again and again while they are made."""
    is_needed = is_needed and gc.isenabled()
    if is_needed:
        gc.disable()
    try:
        yield
    finally:
        if is_needed:
            gc.enable()


def check_members(body: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    """Refuses members nobody reads: most often a misspelt one."""
    for name in body:
        if name not in known:
            raise UnknownName.among(f"member of {what}", name, known)


def check_names(columns: dict[str, Any], known: Collection[str], what: str) -> None:
    """Refuses the first name that the model does not know."""
    for name in columns:
        if name not in known:
            raise UnknownName.among(what, name, known)


def object_of(value: Any, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise InvalidInput.of(what, kind_of(value), "a JSON object", "see /openapi.json")
    return value


def list_of(value: Any, what: str, max_rows: int) -> list[Any]:
    if type(value) is not list:
        raise InvalidInput.of(what, kind_of(value), "a list with one entry per candidate", "see /openapi.json")
    if len(value) > max_rows:
        raise Refusal(
            TOO_LARGE,
            f"{what}: got {len(value)} entries; expected at most {max_rows}. Hint: split the request.",
        )
    return value


def numbers_of(value: Any, what: str, max_rows: int) -> Floats:
    column = list_of(value, what, max_rows)
    for row, entry in enumerate(column):
        if type(entry) not in NUMBERS:
            raise InvalidInput.of(what, f"{kind_of(entry)} at row {row}", "numbers", "send one number per candidate")
    return np.array(column, dtype=np.float64)


def kind_of(value: Any) -> str:
    return _JSON_NAMES.get(type(value)) or f"{value}"
