"""Whatever a fit may be given, as rows or as a log: a table, or a prepared log with scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.roles import Roles
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.log_folders import is_any_log_folder, open_log
from monocal.logs.scored_log import ScoredLog
from monocal.tables.read import read
from monocal.tables.rows import Rows
from monocal.tables.stream import Table

ScoredInput = Table | EncodedLog | ScoredLog
"""A table with scores, a log with scores, or the folder of such a log."""

Embeddings = Sequence[NDArray[np.float32]]


def scored_input(table: ScoredInput, **columns: Any) -> tuple[Rows | EncodedLog, Embeddings | None]:
    """Returns rows or a log with scores, and the ranker's embeddings where a ranker scored it.

    Arguments:
        table: What a user gave.
        columns: The roles of a table's columns, as `Roles.of` takes them; a log knows its own.

    Example:
        >>> rows, embeddings = scored_input({"pctr": [0.1], "click": [0]}, score="pctr", label="click")
        >>> rows.n_rows, embeddings
        (1, None)
    """
    if isinstance(table, str | Path) and is_any_log_folder(table):
        table = open_log(table)
    if isinstance(table, ScoredLog | EncodedLog) and columns.get("numeric"):
        raise InvalidInput.of(
            "numeric", columns["numeric"], "a table; a prepared log holds categories", "fit the table itself"
        )
    if isinstance(table, ScoredLog):
        return table.as_encoded(), table.embeddings
    if isinstance(table, EncodedLog):
        return table, None
    return read(table, Roles.of(**columns)), None
