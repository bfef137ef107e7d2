"""The table boundary: the one file that knows what a user may hand over.

A table is a path to Parquet or CSV (one file, several, a folder, also one partitioned by `column=value`, or a glob; CSV
may be gzip or zstd), a URI of the same, an Arrow dataset, any object with the Arrow C stream interface (pandas, polars,
pyarrow, duckdb), a polars LazyFrame, a Spark table, the folder of a prepared log, or a plain mapping of columns.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.files import is_uri
from monocal.tables.categories import categories_of_text
from monocal.tables.columns import RawRows, check_names, kind_of, plain_schema, with_places
from monocal.tables.csv import CsvFormat, RowProblems, csv_rows, csv_schema
from monocal.tables.files import (
    CSV_ENDINGS,
    PARQUET_ENDINGS,
    DataFile,
    base_of,
    data_file,
    files_at,
    find_files,
    is_known,
    is_parquet,
    is_text,
    reading,
    with_parts,
)

TableLike = Any
"""A path or several, a URI, a dataset, an object with `__arrow_c_stream__`, a Spark table, or a mapping of columns."""

BATCH_ROWS = 131_072


@final
@dataclass(frozen=True)
class TableStream:
    """A table that can be read several times in batches, without ever being whole in memory (if it is a file).

    Attributes:
        arrow_schema: Column names and types; of text files the types that the first rows suggest.
        n_rows: How many rows there are, or None if only reading would tell (CSV).
        source: What errors call this table.
        files: The files behind it, each with the columns that its folders say.
        in_memory: The table itself, if it is in memory.
        dataset: What yields its batches, if it is neither: an Arrow dataset, or an object like one.
        changes: Columns whose type is another one in a later file.
        form: How text files separate values; None takes what the ending of their name says.
    """

    arrow_schema: pa.Schema
    n_rows: int | None
    source: str
    files: tuple[DataFile, ...] = ()
    in_memory: pa.Table | None = None
    dataset: Any = None
    changes: Mapping[str, TypeChange] = field(default_factory=dict)
    form: CsvFormat | None = None

    @property
    def column_names(self) -> list[str]:
        return list(self.arrow_schema.names)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of this machine behind it, also those of a dataset."""
        if getattr(getattr(self.dataset, "filesystem", None), "type_name", "") == "local":
            return tuple(map(Path, self.dataset.files))
        return tuple(Path(file.path) for file in self.files if file.is_local)

    def require(self, columns: Sequence[str]) -> None:
        """Refuses the first column that does not exist, and suggests the nearest one that does."""
        for column in columns:
            if column not in self.arrow_schema.names:
                raise UnknownName.among(f"column of {self.source}", column, self.column_names)

    def check_types(self, columns: Sequence[str], categories: Sequence[str] = ()) -> None:
        """Refuses a column that changes its type from file to file; of categories, also one whose text changes."""
        for name in columns:
            change = self.changes.get(name)
            if change is not None and (name in categories or not change.text_alone):
                raise InvalidInput.of(
                    f"column {name!r}",
                    change.types,
                    "one type in all files, because 7 and 07 would be two values",
                    "cast it to the same type in every file",
                )

    def batches(
        self,
        columns: Sequence[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        dictionary_columns: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Yields record batches of at most `batch_rows` rows with the chosen columns, in file order.

        Arguments:
            columns: Which columns; None means all.
            batch_rows: The size of a batch.
            dictionary_columns: Category columns: text comes dictionary-encoded (several times faster to count and
                encode), and those of text files as any other table would hold them.
        """
        for placed in self.placed_batches(columns, batch_rows, dictionary_columns):
            yield placed.batch

    def placed_batches(
        self,
        columns: Sequence[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        dictionary_columns: Sequence[str] = (),
        *,
        slices: Collection[str] = (),
        problems: RowProblems | None = None,
        as_written: bool = False,
    ) -> Iterator[RawRows]:
        """As `batches`, with the place of each row, so that an error can name the file and the row in it.

        Arguments:
            columns: Which columns; None means all.
            batch_rows: The size of a batch.
            dictionary_columns: Category columns.
            slices: Of these, the ones that only tell rows apart; see `categories_of_text`.
            problems: Receives malformed lines of text files, and how far the files were read; by default the first
                such line is refused.
            as_written: Whether the categories of text files stay as they are written, for `categories_of_text`.
        """
        if columns is not None:
            self.require(columns)
        names = list(columns) if columns is not None else self.column_names
        self.check_types(names, dictionary_columns)
        if self.in_memory is not None:
            yield from with_places(self.in_memory.select(names).to_batches(max_chunksize=batch_rows), self.source)
        if self.dataset is not None:
            with reading(self.source):
                yield from with_places(self.dataset.to_batches(columns=names, batch_size=batch_rows), self.source)
        for file in self.files:
            problems = problems or RowProblems(hint='leave it out with prepare and on_error="skip"')
            if not is_text(file.path):
                found = _parquet_batches(file, names, batch_rows, dictionary_columns, problems)
                yield from with_places(found, file.name)
                continue
            form = self.form or CsvFormat.of_name(file.name)
            plain = [name for name in names if name not in dictionary_columns]
            for rows in csv_rows(file, form, problems, names, plain, dictionary_columns):
                kept = rows if as_written else categories_of_text(rows, dictionary_columns, slices)
                for start in range(0, kept.batch.num_rows, batch_rows):
                    yield kept.slice(start, batch_rows)


def open_table(table: TableLike) -> TableStream:
    """Opens anything a user may call a table.

    Example:
        >>> stream = open_table({"pctr": [0.1, 0.2], "click": [0, 1]})
        >>> stream.column_names, stream.n_rows
        (['pctr', 'click'], 2)
        >>> stream.require(["ctr"])
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: column of the table: got 'ctr'; expected one of pctr, click. Hint: ...
    """
    if isinstance(table, TableStream):
        return table
    if isinstance(table, str | Path):
        return _open_prepared(table) or _open_files([str(table)], str(table))
    if isinstance(table, list | tuple) and table and all(isinstance(place, str | Path) for place in table):
        return _open_files(list(map(str, table)), f"{len(table)} places")
    kind = type(table).__module__.partition(".")[0], type(table).__name__
    if kind == ("polars", "LazyFrame"):
        table = table.collect()
    if kind == ("pyarrow", "Scanner"):
        table = table.to_table()
    if kind[0] == "pyarrow" and kind[1].endswith("Dataset"):
        return _open_dataset(table)
    if hasattr(table, "mapInArrow"):  # Spark, which is not imported here
        return _stream(ClusterTable(table), "the Spark table")
    held = _arrow_table(table)
    return _stream(held, "the table", held.num_rows, in_memory=held, dataset=None)


def _stream(rows: Any, source: str, n_rows: int | None = None, **others: Any) -> TableStream:
    """Opens what has a schema and yields batches."""
    check_names(rows.schema.names, source)
    return TableStream(plain_schema(rows.schema), n_rows, source, **{"dataset": rows, **others})


def _arrow_table(table: Any) -> pa.Table:
    """Returns a data frame, batch, reader or mapping as an Arrow table."""
    if isinstance(table, Mapping):
        held = pa.table({name: pa.array(values) for name, values in table.items()})
        for name, values in table.items():
            _check_zones(name, values, held.schema.field(name).type)
        return held
    kind = f"an object of type {type(table).__name__}"
    if not hasattr(table, "__arrow_c_stream__") and not isinstance(table, pa.RecordBatch):
        raise InvalidInput.of(
            "table",
            kind,
            "a Parquet or CSV path, or a data frame with the Arrow C stream interface",
            "pass a path or several, or a pandas, polars, pyarrow or duckdb table",
        )
    try:
        return pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else pa.table(table)
    except pa.ArrowInvalid as error:
        if "non-struct type" not in str(error):
            raise
        raise InvalidInput.of(
            "table", f"{kind}, one column", "columns with names", "pass the frame it is from"
        ) from error


def _check_zones(name: str, values: Any, kind: pa.DataType) -> None:
    """Refuses Python times of which some have a zone: Arrow would take the others for UTC."""
    if not pa.types.is_timestamp(kind) or not isinstance(values, list | tuple | np.ndarray):
        return
    if len({value.tzinfo is not None for value in values if isinstance(value, datetime.datetime)}) > 1:
        hint = "give every time a zone, or none of them"
        raise InvalidInput.of(f"column {name!r}", "times with and without a zone", "one kind in all rows", hint)


def _open_prepared(place: str | Path) -> TableStream | None:
    """Opens the folder of a prepared log as a table of values; None if it is none."""
    from monocal.tables.encoded import LogValues, is_encoded, open_encoded

    if is_uri(str(place)) or not is_encoded(place):
        return None
    rows = open_encoded(place)
    return _stream(LogValues(rows), str(place), rows.n_rows)


def _open_dataset(dataset: Any) -> TableStream:
    """Opens a caller's dataset: files of text are read here, everything else, and what it leaves out, by Arrow."""
    source = "the dataset"
    if type(getattr(dataset, "format", None)).__name__ == "CsvFileFormat":
        options = dataset.format.parse_options
        files = tuple(data_file(fragment, dataset.schema) for fragment in dataset.get_fragments())
        dialect = CsvFormat(options.delimiter, options.quote_char or None)
        return _stream(dataset, source, files=files, form=dialect, dataset=None)
    if not all(map(is_parquet, getattr(dataset, "files", [""]))):
        return _stream(dataset, source)
    fragments = list(dataset.get_fragments())
    schemas = [(Path(fragment.path).name, fragment.physical_schema) for fragment in fragments]
    n_rows = sum(fragment.metadata.num_rows for fragment in fragments)
    return _stream(dataset, source, n_rows, changes=type_changes(schemas))


def _open_files(places: Sequence[str], source: str) -> TableStream:
    """Opens files that have the same columns; a column may change its type as long as it plays no part."""
    if len(places) == 1 and is_uri(places[0]):
        names, base, system = files_at(places[0])
    else:
        names, system = [str(path) for place in places for path in find_files(place)], None
        base = os.path.commonpath([base_of(place) for place in places])
        for name in names:
            if not is_known(name):
                endings = f"a file ending in {', '.join(PARQUET_ENDINGS + CSV_ENDINGS)}"
                raise InvalidInput.of("table", repr(name), endings, "convert it to Parquet")
    files = with_parts(names, base, system, source)
    opened = [_file_schema(file) for file in files]
    first = opened[0][0]
    columns = list(dict.fromkeys([*first.names, *(name for file in files for name in file.parts)]))
    for file, (schema, _) in zip(files, opened, strict=True):
        check_names(schema.names, file.name)
        missing = [name for name in columns if name not in schema.names]
        if missing:
            without = f"{file.name} without column {missing[0]!r}"
            raise InvalidInput.of("table", without, f"the columns of {files[0].name}", "align the files")
    # text has no types of its own
    typed = [(file.name, schema) for file, (schema, _) in zip(files, opened, strict=True) if not is_text(file.path)]
    counts = [n_rows for _, n_rows in opened if n_rows is not None]
    n_rows = sum(counts) if len(counts) == len(files) else None
    return TableStream(first, n_rows, source, tuple(files), changes=type_changes(typed))


def _file_schema(file: DataFile) -> tuple[pa.Schema, int | None]:
    """Returns the columns of a file with those that its folders say, and its number of rows, if that is written."""
    if is_text(file.path):
        return csv_schema(file, CsvFormat.of_name(file.name)), None
    with reading(file.name, "Parquet"), file.open() as opened:
        parquet = pq.ParquetFile(opened)
        schema, n_rows = plain_schema(parquet.schema_arrow), parquet.metadata.num_rows
    return file.schema_with_parts(schema), n_rows


def _parquet_batches(
    file: DataFile, names: list[str], batch_rows: int, dictionary_columns: Sequence[str], problems: RowProblems
) -> Iterator[pa.RecordBatch]:
    inside = [name for name in names if name not in file.parts]
    # reading through a map would count the whole file as resident memory
    with (
        reading(file.name, "Parquet"),
        file.open() as opened,
        pq.ParquetFile(
            opened,
            read_dictionary=[name for name in dictionary_columns if name in inside],
            pre_buffer=not file.is_local,
            page_checksum_verification=True,
        ) as parquet,
    ):
        bytes_per_row = opened.size() / max(parquet.metadata.num_rows, 1)
        for batch in parquet.iter_batches(batch_size=batch_rows, columns=inside or parquet.schema_arrow.names[:1]):
            problems.on_bytes(int(bytes_per_row * batch.num_rows))
            yield file.with_parts(batch, names)


class TypeChange(NamedTuple):
    """A column with one type in the first file and another one in a later file."""

    types: str
    """Both, and the names of the files."""

    text_alone: bool
    """Only the text of its values changes: 1 becomes true; as numbers they are the same."""


def type_changes(schemas: Sequence[tuple[str, pa.Schema]]) -> dict[str, TypeChange]:
    """Returns the columns whose kind of type changes after the first file; widths of integers and of text do not count.

    Arguments:
        schemas: The name and the columns of each file, the first one first.

    Example:
        >>> first = pa.schema({"site": pa.int32(), "n": pa.int8()})
        >>> later = pa.schema({"site": pa.string(), "n": pa.int64()})
        >>> type_changes([("a.parquet", first), ("b.parquet", later)])
        {'site': TypeChange(types='string in b.parquet after int32 in a.parquet', text_alone=False)}
    """
    found: dict[str, TypeChange] = {}
    for file, later in schemas[1:]:
        start, first = schemas[0]
        for name in set(first.names) & set(later.names) - set(found):
            before, after = first.field(name).type, later.field(name).type
            kinds = {kind_of(before), kind_of(after)}
            # 9 and 9.0 are one value, as a number and as a category; see `categories.as_text`
            if len(kinds) == 1 or "null" in kinds or kinds == {"integer", "float"}:
                continue
            text_alone = kinds <= {"integer", "boolean", "decimal", "float"}
            found[name] = TypeChange(f"{after} in {file} after {before} in {start}", text_alone)
    return found


_SPARK_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
"""Spark's names of column types, in Arrow. Nothing here imports Spark."""


@final
class ClusterTable:
    """The columns of a Spark table as a dataset; rows stay on the cluster until columns are asked for.

    They are collected partition after partition (before Spark 4.2 in one piece) and kept, because Spark may give the
    rows of a shuffled table in another order when it is asked again.

    Arguments:
        frame: A `pyspark.sql.DataFrame`, classic or of Spark Connect.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._held: pa.Table | None = None
        self.schema = collect(frame.limit(0)).schema

    def hold(self, columns: Sequence[str]) -> pa.Table:
        """Returns these columns; what is asked for later is found in the same order if it is among them."""
        if self._held is None or not set(columns) <= set(self._held.column_names):
            self._held = collect(self._frame.select(*(f"`{name}`" for name in dict.fromkeys(columns))))
        return self._held.select(list(columns))

    def to_batches(self, columns: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """Yields batches of these columns."""
        yield from self.hold(columns).to_batches(max_chunksize=batch_size)


def collect(frame: Any) -> pa.Table:
    """Brings a Spark table to this machine, with the types that its columns have there."""
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    # Spark 3.5 gives pandas frames only, where a whole number beside a null is a fraction and an empty text has no type
    rows = frame.mapInArrow(_as_bytes, "data binary").collect()
    pieces = [pa.ipc.open_stream(row["data"]).read_all() for row in rows]
    schema = pa.schema([(column.name, _arrow_type(column, pieces)) for column in frame.schema.fields])
    return pa.concat_tables([schema.empty_table(), *(piece.cast(schema) for piece in pieces)])


def _arrow_type(column: Any, pieces: Sequence[pa.Table]) -> pa.DataType:
    """Returns the type of a Spark column; lists and the like, which play no part here, have that of their rows."""
    kind = column.dataType.typeName()
    if kind == "decimal":
        return pa.decimal128(column.dataType.precision, column.dataType.scale)
    return _SPARK_TYPES.get(kind) or (pieces[0].schema.field(column.name).type if pieces else pa.null())


def _as_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker does: every batch becomes one row, the bytes of an Arrow stream."""
    for batch in batches:
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([stream.getvalue().to_pybytes()], pa.binary())], names=["data"])
