"""Texts of the command line turned into what the library takes."""

from __future__ import annotations

import atexit
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from monocal.core.errors import InvalidInput

STANDARD_INPUT = "-"


def names(texts: Sequence[str] | None) -> list[str] | None:
    """Splits at commas, so that `--fields a,b` and `--fields a --fields b` mean the same; None where nothing is given.

    Example:
        >>> names(["site_id, app_id", "hour"]), names(None)
        (['site_id', 'app_id', 'hour'], None)
    """
    return [part.strip() for text in texts for part in text.split(",") if part.strip()] if texts else None


def fields(texts: Sequence[str] | None) -> list[str] | None:
    """Splits at commas; the word `none` names nothing, and nothing given is None.

    Example:
        >>> fields(["site_id,app_id"]), fields(["none"]), fields(None)
        (['site_id', 'app_id'], [], None)
    """
    found = names(texts)
    return [] if found == ["none"] else found


def limits(option: str, text: str | None) -> tuple[float, float] | None:
    """Reads the smallest and the largest number.

    Example:
        >>> limits("--pcoc", "0.9,1.1"), limits("--pcoc", None)
        ((0.9, 1.1), None)
    """
    if text is None:
        return None
    low, comma, high = text.partition(",")
    if not comma:
        raise InvalidInput.of(option, repr(text), "two numbers with a comma", f"write {option} 0.9,1.1")
    return number(option, low), number(option, high)


def tasks(texts: Sequence[str] | None) -> dict[str, tuple[str, str]] | None:
    """Reads `label:score` pairs; the label's column names the task.

    Example:
        >>> tasks(["click:pctr", "long_view:plv"])
        {'click': ('click', 'pctr'), 'long_view': ('long_view', 'plv')}
        >>> tasks(["click"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: tasks: got 'click'; expected label:score. Hint: write --tasks click:pctr.
    """
    found: dict[str, tuple[str, str]] = {}
    for text in names(texts) or ():
        label, colon, score = text.partition(":")
        if not (label and colon and score) or ":" in score:
            raise InvalidInput.of("tasks", repr(text), "label:score", "write --tasks click:pctr")
        check_once("tasks", label, found)
        found[label] = (label, score)
    return found or None


def pairs(option: str, texts: Sequence[str] | None) -> str | dict[str, str] | None:
    """Reads one `value`, or `name=value` pairs.

    Example:
        >>> pairs("--column", ["p_click"]), pairs("--column", ["click=p_click", "view=p_view"])
        ('p_click', {'click': 'p_click', 'view': 'p_view'})
    """
    given = list(texts or ())
    if not given:
        return None
    return given[0] if len(given) == 1 and "=" not in given[0] else pairs_only(option, given)


def pairs_only(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Reads `name=value` pairs.

    Example:
        >>> pairs_only("--cuts", ["test"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: --cuts: got 'test'; expected name=value. Hint: write --cuts test=….
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InvalidInput.of(option, repr(text), "name=value", f"write {option} {text}=…")
        check_once(option, name, found)
        found[name] = value
    return found


def number(option: str, text: str) -> float:
    """Reads a number.

    Example:
        >>> number("--shares", "0.6"), number("--hashed-fields", "1_000_000")
        (0.6, 1000000.0)
    """
    try:
        return float(text)
    except ValueError:
        raise InvalidInput.of(option, repr(text), "a number", f"write {option} name=1") from None


def number_or_column(text: str | None) -> float | str | None:
    """A number, or else the name of a column.

    Example:
        >>> number_or_column("0.1"), number_or_column("keep_share"), number_or_column(None)
        (0.1, 'keep_share', None)
    """
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Reads `name=value` pairs; a value is TOML or JSON, and anything else is text.

    Example:
        >>> settings(["n_bins=20", "guard=true", "variant=authors", "seed=null", "shape=[50, 50]"])
        {'n_bins': 20, 'guard': True, 'variant': 'authors', 'seed': None, 'shape': [50, 50]}
    """
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not (name.isidentifier() and equals):
            raise InvalidInput.of("--set", repr(text), "name=value", "write --set n_bins=20")
        check_once("--set", name, found)
        found[name] = _value(value.strip())
    return found


def settings_by_method(texts: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Reads `method.name=value` pairs.

    Example:
        >>> settings_by_method(["histogram.n_bins=20", "umc.seed=1"])
        {'histogram': {'n_bins': 20}, 'umc': {'seed': 1}}
    """
    found: dict[str, dict[str, Any]] = {}
    for text in texts or ():
        method, dot, rest = text.partition(".")
        if not (dot and method.isidentifier() and "=" in rest):
            raise InvalidInput.of("--set", repr(text), "method.name=value", "write --set histogram.n_bins=20")
        of_method = found.setdefault(method, {})
        for name, value in settings([rest]).items():
            check_once("--set", f"{method}.{name}", [f"{method}.{known}" for known in of_method])
            of_method[name] = value
    return found


def table(paths: Sequence[str]) -> Any:
    """Reads `TABLE…`: one path, several (as a shell makes of an unquoted glob), or `-` for standard input.

    Example:
        >>> table(["log.parquet"]), table(["a.parquet", "b.parquet"])
        ('log.parquet', ['a.parquet', 'b.parquet'])
    """
    if STANDARD_INPUT in paths:
        if len(paths) > 1:
            raise InvalidInput.of("TABLE", f"- beside {len(paths) - 1} paths", "standard input alone", "pipe it all in")
        return str(spool_standard_input())
    return paths[0] if len(paths) == 1 else list(paths)


def spool_standard_input() -> Path:
    """Copies standard input to a file that lasts as long as this process, and returns its path.

    It is Parquet by its first bytes, else CSV, or TSV if its first line has a tab. A file can be read more than once.
    """
    content = sys.stdin.buffer
    start = content.peek(4)[:4] if hasattr(content, "peek") else b""
    first = b"" if start == b"PAR1" else content.readline()
    ending = ".parquet" if start == b"PAR1" else ".tsv" if b"\t" in first else ".csv"
    folder = tempfile.TemporaryDirectory(prefix="monocal-")
    atexit.register(folder.cleanup)
    target = Path(folder.name) / f"standard_input{ending}"
    with target.open("wb") as write:
        write.write(first)
        shutil.copyfileobj(content, write)
    if not target.stat().st_size:
        raise InvalidInput.of("table", "empty standard input", "Parquet or CSV", "pipe a table into the command")
    return target


def model_and_table(paths: Sequence[str]) -> tuple[str | None, Any]:
    """Reads `[MODEL] TABLE…`; with several paths the first is a model unless its name is that of a table.

    Example:
        >>> model_and_table(["model/", "test.parquet"]), model_and_table(["scored.parquet"])
        (('model/', 'test.parquet'), (None, 'scored.parquet'))
        >>> model_and_table(["a.parquet", "b.parquet"])
        (None, ['a.parquet', 'b.parquet'])
    """
    from monocal.tables.files import WRITABLE_ENDINGS

    is_table = len(paths) == 1 or paths[0].lower().endswith(WRITABLE_ENDINGS)
    return (None, table(paths)) if is_table else (paths[0], table(paths[1:]))


def check_once(option: str, name: str, found: Container[str]) -> None:
    """Refuses a name that is given twice."""
    if name in found:
        raise InvalidInput.of(option, f"{name!r} twice", f"{option} once per name", "remove one of the two")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
