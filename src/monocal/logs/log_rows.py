"""Raw rows into clean ones: labels, times, weights and scores as numbers of one type, fields as they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.roles import Roles
from monocal.core.samples import LARGEST_WEIGHT
from monocal.tables.columns import numbers_in
from monocal.tables.moments import WANTED, moments
from monocal.tables.row_problems import RawRows, RowProblems

MISSING_LABEL = -1


class LogRows(NamedTuple):
    """Rows of a log without malformed ones.

    Attributes:
        fields: The field columns, named by field.
        group: The group column, if there is one.
        numbers: "label:<task>" (int8, -1 = not observed), "time" (int64), "weight" (float32), "score:<task>" and
            "sampling_rate" (float64).
    """

    n_rows: int
    fields: pa.RecordBatch
    group: pa.Array | None
    numbers: dict[str, NDArray[Any]]

    def newest(self, n_rows: int) -> LogRows:
        """Returns the last `n_rows` rows."""
        if n_rows >= self.n_rows:
            return self
        start = self.n_rows - n_rows
        group = None if self.group is None else self.group.slice(start)
        numbers = {name: column[start:] for name, column in self.numbers.items()}
        return LogRows(n_rows, self.fields.slice(start), group, numbers)


def number_types(schema: Roles) -> dict[str, np.dtype[Any]]:
    """Returns the name and type of every number column of a log with this schema."""
    types: dict[str, Any] = {f"label:{task}": np.int8 for task in schema.labels}
    types |= {f"score:{task}": np.float64 for task in schema.scores or {}}
    optional: dict[str, tuple[Any, Any]] = {
        "time": (schema.time, np.int64),
        "weight": (schema.weight, np.float32),
        "sampling_rate": (schema.sampling_rate, np.float64),
    }
    types |= {name: kind for name, (column, kind) in optional.items() if column is not None}
    return {name: np.dtype(kind) for name, kind in types.items()}


def number_columns(schema: Roles) -> dict[str, str]:
    """Returns the raw column behind every number column; a constant sampling rate has none."""
    columns = {f"label:{task}": column for task, column in schema.labels.items()}
    columns |= {f"score:{task}": column for task, column in (schema.scores or {}).items()}
    rate = schema.sampling_rate if isinstance(schema.sampling_rate, str) else None
    optional = {"time": schema.time, "weight": schema.weight, "sampling_rate": rate}
    return columns | {name: column for name, column in optional.items() if column is not None}


def clean_rows(
    raw: RawRows, schema: Roles, problems: RowProblems, *, fields: bool, group: bool, numbers: tuple[str, ...]
) -> LogRows:
    """Converts the asked columns; a value that does not fit its part makes the row malformed.

    Arguments:
        raw: Rows that have at least the columns asked for.
        schema: Which column plays which part.
        problems: Receives malformed rows.
        fields: Whether to take the field columns.
        group: Whether to take the group column.
        numbers: Which number columns to take, by the names of `number_types`.
    """
    columns = number_columns(schema)
    held: dict[str, NDArray[Any]] = {}
    for name in numbers:
        if name not in columns:
            continue
        column = raw.batch.column(columns[name])
        values, bad, wanted = _convert(name, column, schema)
        if bad.any():
            raw = problems.drop(raw, bad, column, f"{wanted} in column {columns[name]!r}")
            values = values[~bad]
            held = {other: kept[~bad] for other, kept in held.items()}
        held[name] = values
    n_rows = raw.batch.num_rows
    if "sampling_rate" in numbers and isinstance(schema.sampling_rate, float | int):
        held["sampling_rate"] = np.full(n_rows, float(schema.sampling_rate))
    kinds = number_types(schema)
    typed = {name: held[name].astype(kinds[name], copy=False) for name in numbers}
    chosen = raw.batch.select(list(schema.fields) if fields else [])
    return LogRows(n_rows, chosen, raw.batch.column(schema.group) if group and schema.group else None, typed)


def _convert(name: str, column: pa.Array, schema: Roles) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    """Returns the values, which rows are bad, and what was wanted."""
    if name == "time":
        return (*moments(column), WANTED)
    values, missing, bad = numbers_in(column, f"{name.partition(':')[0]} column")
    if name.startswith("label:"):
        bad = bad | (~missing & (values != 0.0) & (values != 1.0))
        return np.where(missing, MISSING_LABEL, np.where(bad, 0.0, values)), bad, "0, 1 or nothing"
    bad = bad | missing
    if name == "weight":
        fits = (values >= 0.0) & (values <= LARGEST_WEIGHT)
        return values, bad | ~fits, f"a weight from 0 to {LARGEST_WEIGHT:g}"
    if name == "sampling_rate":
        return values, bad | ~((values > 0.0) & (values <= 1.0)), "a sampling rate in (0, 1]"
    if schema.scores_are == "probability":
        return values, bad | ~((values >= 0.0) & (values <= 1.0)), "a probability in [0, 1]"
    return values, bad | ~np.isfinite(values), "a finite logit"
