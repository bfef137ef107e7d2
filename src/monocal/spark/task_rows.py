"""The rows of one task of a barrier stage, with their field ids in a file of the task's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

READ_ROWS = 1 << 17
"""Rows that are read at a time: their texts are in memory, those of others are not."""


def rows_of_task(batches: Iterable[pa.RecordBatch], roles: Roles, vocabulary: Vocabulary) -> tuple[Table, Ids]:
    """Returns a task's rows without their fields, and the field ids, mapped from a file.

    Texts of fields are a few hundred bytes a row, ids of 21 fields 84: neither stays in memory. The file has no name
    and is gone with the process, whatever ends it; the system may drop its pages, as those of a log.

    Arguments:
        batches: What Spark hands to the task.
        roles: Which column plays which part.
        vocabulary: Of the fields.

    Example:
        >>> table = pa.table({"y": [0, 1], "p": [0.1, 0.5], "site": ["a", "b"]})
        >>> roles = Roles.of(score="p", label="y", fields=["site"])
        >>> rows, ids = rows_of_task(table.to_batches(), roles, Vocabulary.of_table(table, ["site"]))
        >>> rows.scores["y"].tolist(), ids.tolist()
        ([0.1, 0.5], [[1], [2]])
    """
    parts, n_fields = [], len(vocabulary.fields)
    with tempfile.TemporaryFile(prefix="monocal-") as file:
        for table in _tables(batches):
            found = Table.read(table, roles)
            ids = vocabulary.encode_columns({name: found.fields[name] for name in vocabulary.names}, found.n_rows)
            try:
                file.write(np.ascontiguousarray(ids).data)
            except OSError as error:
                raise InvalidInput.of(
                    "rows of a task",
                    f"{file.tell():,} bytes of field ids that could not be written ({error.strerror})",
                    f"room in {tempfile.gettempdir()} for {4 * n_fields} bytes a row",
                    "set TMPDIR of the executors to a larger disk, or use more workers",
                ) from error
            parts.append(found.with_fields(()))
        file.flush()
        n_rows = sum(part.n_rows for part in parts)
        if not n_rows * n_fields:
            return _joined(parts, roles), np.zeros((n_rows, n_fields), np.int32)
        return _joined(parts, roles), np.memmap(file, np.int32, "r", shape=(n_rows, n_fields))


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields batches together, until they are enough rows."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
        if sum(piece.num_rows for piece in held) >= READ_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _joined(parts: list[Table], roles: Roles) -> Table:
    """Returns all rows, one after the other, without groups."""
    nothing = np.zeros(0)
    if not parts:
        return Table(
            roles,
            labels=dict.fromkeys(roles.labels, nothing.astype(np.int8)),
            scores=dict.fromkeys(roles.score_columns, nothing),
            times=None if roles.time is None else nothing.astype(np.int64),
        )
    found: dict[str, Any] = {}
    for name in (column.name for column in fields(Table)):
        columns = [getattr(part, name) for part in parts]
        if name in ("labels", "scores"):
            found[name] = {task: np.concatenate([column[task] for column in columns]) for task in columns[0]}
        elif name == "weights" and any(column is not None for column in columns):
            # of soft labels only some parts may have been cut into weighted rows
            found[name] = np.concatenate(
                [np.ones(part.n_rows) if part.weights is None else part.weights for part in parts]
            )
        elif isinstance(columns[0], np.ndarray) and name != "units":
            found[name] = np.concatenate(columns)
        else:
            found[name] = None if name == "units" else columns[0]
    return Table(**found)
