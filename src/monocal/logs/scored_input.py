"""Whatever a fit may be given: a table with scores, or a prepared log with scores; and which column of it is what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monocal.core.errors import InvalidInput
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.log_folders import is_any_log_folder, open_log
from monocal.logs.scored_log import ScoredLog
from monocal.tables.roles import Roles
from monocal.tables.source import Table

ScoredInput = Table | EncodedLog | ScoredLog
"""A table with scores, a log with scores, or the folder of such a log."""

_OF_TABLES = {
    "numeric": "a table; a prepared log holds categories",
    "label_time": "a table with scores, where labels may still come",
    "window": "a table with scores, where labels may still come",
}
"""What a prepared log has no columns for, and what has."""


def scored_input(table: ScoredInput, columns: Mapping[str, Any]) -> tuple[ScoredInput, Roles]:
    """Returns what was given, a folder of a log as that log, and its roles.

    A log knows its own roles.

    Arguments:
        table: What a user gave.
        columns: The roles of a table's columns, by name, as `Roles.of` takes them.

    Example:
        >>> scored_input({"pctr": [0.1], "click": [0]}, {"score": "pctr", "label": "click"})[1].columns
        ('click', 'pctr')
    """
    if isinstance(table, str | Path) and is_any_log_folder(table):
        table = open_log(table)
    if not isinstance(table, ScoredLog | EncodedLog):
        fields = columns.get("fields") or ()
        once = fields if isinstance(fields, str) else list(dict.fromkeys(fields))
        return table, Roles.of(**{**columns, "fields": once})
    for name, wanted in _OF_TABLES.items():
        if columns.get(name):
            raise InvalidInput.of(name, "a prepared log", wanted, "fit the table itself, in one process")
    known = table.as_encoded().roles if isinstance(table, ScoredLog) else table.roles
    return table, known
