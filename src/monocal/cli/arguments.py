"""Texts of the command line turned into what the library takes."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Container, Sequence
from typing import Any

from monocal.core.errors import InvalidInput

STANDARD_INPUT = "-"
_TABLE_ENDINGS = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")


def names(texts: Sequence[str] | None) -> list[str]:
    """Splits at commas, so that `--fields a,b` and `--fields a --fields b` mean the same.

    Example:
        >>> names(["site_id, app_id", "hour"])
        ['site_id', 'app_id', 'hour']
    """
    return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]


def names_or_none(texts: Sequence[str] | None) -> list[str]:
    """Splits at commas; the word `none` names nothing.

    Example:
        >>> names_or_none(["site_id,app_id"]), names_or_none(["none"])
        (['site_id', 'app_id'], [])
    """
    return [name for name in names(texts) if name != "none"]


def fields_to_use(table: str | list[str], given: Sequence[str] | None, taken: dict[str, Any]) -> list[str]:
    """Returns the fields that were named: `auto` takes those that a look at the table proposes, `none` names none.

    Arguments:
        table: Where the rows are; a prepared log knows its fields.
        given: What the caller wrote.
        taken: The columns that play another part, as `Roles.of` takes them.
    """
    if names(given) != ["auto"]:
        return names_or_none(given)
    from monocal.cli.output import remark
    from monocal.logs.log_folders import is_any_log_folder
    from monocal.tables.checks import propose_fields, usable_fields
    from monocal.tables.roles import Roles

    if is_any_log_folder(table):
        return []
    found = usable_fields(propose_fields(table, Roles.of(**taken)))
    remark(f"fields: {', '.join(found) or 'none'}")
    return found


def tasks(texts: Sequence[str] | None) -> dict[str, tuple[str, str]] | None:
    """Reads `label:score` pairs; the label's column names the task.

    Example:
        >>> tasks(["click:pctr", "long_view:plv"])
        {'click': ('click', 'pctr'), 'long_view': ('long_view', 'plv')}
        >>> tasks(["click"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: --task: got 'click'; expected label:score. Hint: write --task click:pctr.
    """
    found: dict[str, tuple[str, str]] = {}
    for text in names(texts):
        label, colon, score = text.partition(":")
        if not (label and colon and score) or ":" in score:
            raise InvalidInput.of("--task", repr(text), "label:score", "write --task click:pctr")
        if label in found:
            raise InvalidInput.of("--task", f"{label!r} twice", "each label once", "remove one of the two")
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
        >>> pairs_only("--cut", ["test"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: --cut: got 'test'; expected name=value. Hint: write --cut test=….
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InvalidInput.of(option, repr(text), "name=value", f"write {option} {text}=…")
        _check_once(option, name, found)
        found[name] = value
    return found


def number(option: str, text: str) -> float:
    """Reads a number.

    Example:
        >>> number("--part", "0.6"), number("--hash", "1_000_000")
        (0.6, 1000000.0)
    """
    try:
        return float(text)
    except ValueError:
        raise InvalidInput.of(option, repr(text), "a number", f"write {option} name=1") from None


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
        _check_once("--set", name, found)
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
            _check_once("--set", f"{method}.{name}", [f"{method}.{known}" for known in of_method])
            of_method[name] = value
    return found


def table(paths: Sequence[str]) -> Any:
    """Reads `TABLE…`: one path, several (as a shell makes of an unquoted glob), or `-` for standard input.

    Example:
        >>> table(["log.parquet"]), table(["a.parquet", "b.parquet"])
        ('log.parquet', ['a.parquet', 'b.parquet'])
    """
    if STANDARD_INPUT in paths:
        from monocal.tables.source import spool_standard_input

        if len(paths) > 1:
            raise InvalidInput.of("TABLE", f"- beside {len(paths) - 1} paths", "standard input alone", "pipe it all in")
        return str(spool_standard_input())
    return paths[0] if len(paths) == 1 else list(paths)


def model_and_table(paths: Sequence[str]) -> tuple[str | None, Any]:
    """Reads `[MODEL] TABLE…`; with several paths the first is a model unless its name is that of a table.

    Example:
        >>> model_and_table(["model/", "test.parquet"]), model_and_table(["scored.parquet"])
        (('model/', 'test.parquet'), (None, 'scored.parquet'))
        >>> model_and_table(["a.parquet", "b.parquet"])
        (None, ['a.parquet', 'b.parquet'])
    """
    is_table = len(paths) == 1 or paths[0].lower().endswith(_TABLE_ENDINGS)
    return (None, table(paths)) if is_table else (paths[0], table(paths[1:]))


def sampling_rate(text: str | None) -> float | str | None:
    """A number, or else the name of a column.

    Example:
        >>> sampling_rate("0.1"), sampling_rate("keep_share"), sampling_rate(None)
        (0.1, 'keep_share', None)
    """
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _check_once(option: str, name: str, found: Container[str]) -> None:
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
