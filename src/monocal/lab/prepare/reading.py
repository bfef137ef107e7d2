"""Clean rows of a log, straight from a table or from a spool of a source that is slow to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.process import progress
from monocal.core.scores import LARGEST_WEIGHT
from monocal.lab.prepare.encoded_log import MISSING_LABEL
from monocal.lab.prepare.source import SourceStream, drop_malformed, table_rows
from monocal.tables.categories import distinct_text
from monocal.tables.columns import (
    EXPECTED,
    Kind,
    RawRows,
    check_one_kind,
    kinds_of_moments,
    moments,
    numbers_in,
)
from monocal.tables.csv import RowProblems
from monocal.tables.roles import Roles
from monocal.tables.source import TableStream


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


def number_types(schema: Roles) -> dict[str, np.dtype[Any]]:
    """Returns the name and type of every number column of a log with this schema."""
    types: dict[str, Any] = {f"label:{task}": np.int8 for task in schema.labels}
    types |= {f"score:{task}": np.float64 for task in schema.scores}
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
    columns |= {f"score:{task}": column for task, column in (schema.scores).items()}
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
            raw = drop_malformed(problems, raw, bad, column, f"{wanted} in column {columns[name]!r}")
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
        return (*moments(column), EXPECTED)
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


class LogReader(Protocol):
    """A log that can be read several times, always with the same rows in the same order."""

    @property
    def n_rows(self) -> int: ...

    def read(
        self, *, fields: bool = False, group: bool = False, numbers: tuple[str, ...] = ()
    ) -> Iterator[LogRows]: ...


@final
class TableReader:
    """Reads a Parquet file or a table in memory; a malformed row stops the reading with its number."""

    def __init__(self, stream: TableStream, schema: Roles) -> None:
        self._stream, self._schema = stream, schema

    @property
    def n_rows(self) -> int:
        return int(self._stream.n_rows or 0)

    def read(self, *, fields: bool = False, group: bool = False, numbers: tuple[str, ...] = ()) -> Iterator[LogRows]:
        """Yields clean rows with the columns asked for; other columns are not read."""
        schema = self._schema
        sources = number_columns(schema)
        texts = [*(schema.fields if fields else ()), *([schema.group] if group and schema.group else [])]
        columns = dict.fromkeys([*texts, *(sources[name] for name in numbers if name in sources)])
        problems = RowProblems("raise")
        raws = table_rows(self._stream, schema, columns=list(columns))
        for raw in _with_one_kind_of_time(raws, schema.time) if "time" in numbers else raws:
            yield clean_rows(raw, schema, problems, fields=fields, group=group, numbers=numbers)


def spool_source(stream: SourceStream, path: Path, show_progress: bool | None) -> tuple[Spool, dict[str, Any]]:
    """Reads a source once and keeps its clean rows in a file; returns it and a summary of the malformed rows."""
    numbers = tuple(number_types(stream.schema))
    n_bytes = sum(path.stat().st_size for path in stream.paths)
    with progress(f"reading {stream.name}", n_bytes or None, unit="bytes", show=show_progress) as bar:
        problems = RowProblems(stream.on_error, on_bytes=bar.advance)

        def rows() -> Iterator[LogRows]:
            n_rows = 0
            for raw in _with_one_kind_of_time(stream.read(problems), stream.schema.time):
                clean = clean_rows(raw, stream.schema, problems, fields=True, group=True, numbers=numbers)
                yield clean
                n_rows += clean.n_rows
                bar.note(f"{n_rows:,} rows")

        return Spool.write(path, rows()), {"n_rows": problems.n_rows, "examples": problems.examples}


def _with_one_kind_of_time(raws: Iterator[RawRows], time: str | None) -> Iterator[RawRows]:
    """Yields the same rows; refuses a log whose times cannot be compared, wherever in it they are."""
    kinds: set[Kind] = set()
    for raw in raws:
        if time is not None:
            kinds |= kinds_of_moments(raw.batch.column(time))
            check_one_kind(kinds, time)
        yield raw


@final
@dataclass(frozen=True)
class Spool:
    """Rows in an Arrow IPC stream whose dictionaries belong to one batch each, so memory is that of a batch.

    Attributes:
        path: The file.
        n_rows: Its rows.
    """

    path: Path
    n_rows: int

    @classmethod
    def write(cls, path: Path, rows: Iterable[LogRows]) -> Spool:
        """Writes all rows."""
        n_rows, writer = 0, None
        options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
        with pa.OSFile(str(path), "wb") as sink:
            for part in rows:
                batch = _to_batch(part)
                if writer is None:
                    writer = pa.ipc.new_stream(sink, batch.schema, options=options)
                if batch.num_rows:
                    writer.write_batch(batch)
                n_rows += part.n_rows
            if writer is not None:
                writer.close()
        return cls(path, n_rows)

    def read(self, *, fields: bool = False, group: bool = False, numbers: tuple[str, ...] = ()) -> Iterator[LogRows]:
        """Yields the rows in the order they were written, with the columns asked for."""
        if self.path.stat().st_size == 0:
            return
        with pa.OSFile(str(self.path), "rb") as head, pa.ipc.open_stream(head) as peek:
            names = peek.schema.names
        wanted = [
            index
            for index, name in enumerate(names)
            if (fields and name.startswith("field:")) or (group and name == "group") or name in numbers
        ]
        # a projection without columns would lose the row count, so one number column always comes along
        options = pa.ipc.IpcReadOptions(included_fields=wanted or [len(names) - 1])
        with pa.OSFile(str(self.path), "rb") as source, pa.ipc.open_stream(source, options=options) as reader:
            for batch in reader:
                yield _from_batch(batch, group, numbers)


def _to_batch(rows: LogRows) -> pa.RecordBatch:
    columns = {f"field:{name}": _coded(column, name) for name, column in _named(rows.fields)}
    if rows.group is not None:
        columns["group"] = _coded(rows.group, "group")
    columns |= {name: pa.array(values) for name, values in rows.numbers.items()}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _from_batch(batch: pa.RecordBatch, group: bool, numbers: tuple[str, ...]) -> LogRows:
    names = [name for name in batch.schema.names if name.startswith("field:")]
    fields = pa.RecordBatch.from_arrays(
        [batch.column(name) for name in names], names=[name.removeprefix("field:") for name in names]
    )
    held = {name: np.asarray(batch.column(name).to_numpy(zero_copy_only=False)) for name in numbers}
    return LogRows(batch.num_rows, fields, batch.column("group") if group else None, held)


def _named(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    return list(zip(batch.schema.names, batch.columns, strict=True))


def _coded(column: pa.Array, name: str) -> pa.Array:
    """A dictionary of the values in these rows alone, whatever dictionary the column came with."""
    values, _, which = distinct_text(column, name)
    return pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), values)
