"""The table boundary: the one file that knows what a user may hand over.

A table is a path to Parquet or CSV (one file, several, a folder, also one partitioned by `column=value`, or a glob; CSV
may be gzip or zstd), a URI of the same, an Arrow dataset, any object with the Arrow C stream interface (pandas, polars,
pyarrow, duckdb), a polars LazyFrame, a Spark table, or a plain mapping of columns.
"""

from __future__ import annotations

import atexit
import datetime
import glob
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.files import is_uri
from monocal.tables.categories import categories_of_text
from monocal.tables.columns import plain_batch, plain_schema, plain_type
from monocal.tables.csv import CsvFormat, TextFile, csv_rows, csv_schema
from monocal.tables.problems import RawRows, RowProblems

_PARQUET_START = b"PAR1"


def open_place(uri: str, argument: str) -> tuple[Any, str]:
    """Returns the file system of a URI and the path in it: Arrow's own, else one of fsspec.

    Arguments:
        uri: Such as `s3://bucket/log/`, `gs://bucket/log.parquet`, `https://example.org/log.parquet`.
        argument: What errors call it.

    Example:
        >>> open_place("file:///tmp/log.parquet", "table")[1]
        '/tmp/log.parquet'
    """
    from pyarrow import fs

    # Hadoop's names of the same store
    known = re.sub(r"^s3[an]://", "s3://", uri)
    scheme = known.partition("://")[0].lower()
    try:
        system, path = fs.FileSystem.from_uri(known)
    except (pa.ArrowException, OSError, ValueError) as error:
        if "Unrecognized filesystem type" not in str(error):
            raise InvalidInput.of(
                argument,
                f"{uri!r}, which cannot be opened ({error})",
                "a URI that pyarrow.fs knows",
                "check the URI and the credentials, or copy it to a local folder",
            ) from error
        try:
            import fsspec

            system = fsspec.filesystem(scheme)
        except (ImportError, ValueError) as missing:
            raise InvalidInput.of(
                argument,
                f"{uri!r}, and nothing here opens {scheme}:// ({missing})",
                "a scheme of pyarrow.fs (s3, gs, hdfs, abfs, file) or of an fsspec that is installed",
                "pip install 'monocal[remote]', or copy it to a local folder",
            ) from missing
        return fs.PyFileSystem(fs.FSSpecHandler(system)), str(system._strip_protocol(known))
    return system, str(path)


def find_dataset(uri: str) -> Any:
    """Opens a URI as an Arrow dataset, with what its folders say; nothing is read yet.

    Raises:
        InvalidInput: If there is nothing to read.
    """
    from pyarrow import fs

    system, path = open_place(uri, "table")
    try:
        (info,) = system.get_file_info([path])
        names = [path]
        if info.type == fs.FileType.Directory:
            inside = system.get_file_info(fs.FileSelector(path, recursive=True))
            names = [entry.path for entry in inside if entry.type == fs.FileType.File]
            names = [name for name in names if not is_hidden(name[len(path) :])]
    except (pa.ArrowException, OSError) as error:
        raise _not_read(uri, error) from error
    if not names or info.type == fs.FileType.NotFound:
        raise InvalidInput.of("table", repr(uri), "a place with Parquet or CSV files", "check the path")
    return as_dataset(names, path, uri, system)


def as_dataset(names: Sequence[str], base: str, source: str, system: Any = None) -> Any:
    """Opens files as an Arrow dataset whose columns are also those that folders below `base` say, as `day=1`.

    Arguments:
        names: The files.
        base: A folder of all of them; what it and the folders above are called is no column.
        source: What errors call the table.
        system: An Arrow file system; None is this machine's.
    """
    from pyarrow import dataset

    kind: Any = "parquet"
    if re.search(r"\.[ct]sv(\.\w+)?$", names[0].lower()):
        delimiter = "\t" if ".tsv" in names[0].lower() else ","
        kind = dataset.CsvFileFormat(parse_options=pa_csv.ParseOptions(delimiter=delimiter))
    try:
        return dataset.dataset(
            sorted(names), filesystem=system, format=kind, partitioning="hive", partition_base_dir=base
        )
    except (pa.ArrowException, OSError) as error:
        raise _not_read(source, error) from error


def is_hidden(path: str) -> bool:
    """Whether a file, or a folder on the way to it, is one that Spark and others write beside a table.

    Example:
        >>> is_hidden("_temporary/0/part.parquet"), is_hidden("_day=1/part.parquet"), is_hidden("day=1/.part.crc")
        (True, False, True)
    """
    return any(part.startswith((".", "_")) and "=" not in part for part in path.split("/") if part)


def _not_read(source: str, error: Exception) -> InvalidInput:
    return InvalidInput.of(
        "table", f"{source!r}, which cannot be read ({error})", "readable Parquet or CSV", "check the place"
    )


def spool_standard_input() -> Path:
    """Copies standard input to a file that lasts as long as this process, and returns its path.

    It is Parquet by its first bytes, else CSV, or TSV if its first line has a tab. A file can be read more than once.
    """
    content = sys.stdin.buffer
    start = content.peek(4)[:4] if hasattr(content, "peek") else b""
    first = b"" if start == _PARQUET_START else content.readline()
    ending = ".parquet" if start == _PARQUET_START else ".tsv" if b"\t" in first else ".csv"
    folder = tempfile.TemporaryDirectory(prefix="monocal-")
    atexit.register(folder.cleanup)
    target = Path(folder.name) / f"standard_input{ending}"
    with target.open("wb") as write:
        write.write(first)
        shutil.copyfileobj(content, write)
    if not target.stat().st_size:
        raise InvalidInput.of("table", "empty standard input", "Parquet or CSV", "pipe a table into the command")
    return target


class TypeChange(NamedTuple):
    """A column with one type in the first file and another one in a later file."""

    first: str
    later: str
    files: tuple[str, str]
    text_alone: bool
    """Only the text of its values changes: 1 becomes true; as numbers they are the same."""

    def check(self, name: str, *, is_category: bool) -> None:
        """Refuses the column unless it is used as numbers, which both types are."""
        if is_category or not self.text_alone:
            raise InvalidInput.of(
                f"column {name!r}",
                f"{self.later} in {self.files[1]} after {self.first} in {self.files[0]}",
                "one type in all files, because 7 and 07 would be two values",
                "cast it to the same type in every file",
            )


def type_changes(first: pa.Schema, later: pa.Schema, files: tuple[str, str]) -> dict[str, TypeChange]:
    """Returns the columns whose kind of type differs between two files; widths of integers and of text do not count.

    Example:
        >>> first = pa.schema({"site": pa.int32(), "n": pa.int8()})
        >>> later = pa.schema({"site": pa.string(), "n": pa.int64()})
        >>> list(type_changes(first, later, ("a.parquet", "b.parquet")))
        ['site']
    """
    found = {}
    for name in first.names:
        if later.get_field_index(name) < 0:
            continue
        kinds = [schema.field(name).type for schema in (first, later)]
        before, after = (_kind(kind) for kind in kinds)
        # 9 and 9.0 are one value, as a number and as a category; see `categories.as_text`
        if before != after and "null" not in (before, after) and {before, after} != {"integer", "float"}:
            text_alone = {before, after} <= {"integer", "boolean", "decimal", "float"}
            found[name] = TypeChange(str(kinds[0]), str(kinds[1]), files, text_alone)
    return found


def check_names(schema: pa.Schema, source: str) -> None:
    """Refuses a table that has a column twice."""
    names = list(schema.names)
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidInput.of(source, f"column {twice!r} twice", "different names", "rename or drop one of the two")


def check_zones(name: str, values: Any, kind: pa.DataType) -> None:
    """Refuses Python times of which some have a zone: Arrow would take the others for UTC."""
    if not pa.types.is_timestamp(kind) or not isinstance(values, list | tuple | np.ndarray):
        return
    zoned = {value.tzinfo is not None for value in values if isinstance(value, datetime.datetime)}
    if len(zoned) > 1:
        raise InvalidInput.of(
            f"column {name!r}",
            "times with and without a zone",
            "one kind in all rows",
            "give every time a zone, or none of them",
        )


def _kind(kind: pa.DataType) -> str:
    kind = plain_type(kind)
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    tests = {
        "null": pa.types.is_null,
        "text": lambda dtype: pa.types.is_string(dtype) or pa.types.is_large_string(dtype),
        "integer": pa.types.is_integer,
        "boolean": pa.types.is_boolean,
        "float": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
        "naive": lambda dtype: pa.types.is_timestamp(dtype) and dtype.tz is None,
        "zoned": pa.types.is_timestamp,
    }
    return next((name for name, fits in tests.items() if fits(kind)), str(kind))


_TYPES = {
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
"""Spark's names of column types, in Arrow."""


@final
class ClusterTable:
    """The columns of a Spark table as a dataset; rows stay on the cluster until columns are asked for.

    They are brought partition after partition (before Spark 4.2 in one piece) and kept, because Spark may give the rows
    of a shuffled table in another order when it is asked again.

    Arguments:
        frame: A `pyspark.sql.DataFrame`, classic or of Spark Connect.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._held: pa.Table | None = None
        self.schema = brought(frame.limit(0)).schema

    def hold(self, columns: Sequence[str]) -> pa.Table:
        """Returns these columns; what is asked for later is found in the same order if it is among them."""
        if self._held is None or not set(columns) <= set(self._held.column_names):
            self._held = brought(self._frame.select(*(f"`{name}`" for name in dict.fromkeys(columns))))
        return self._held.select(list(columns))

    def to_batches(self, columns: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """Yields batches of these columns."""
        yield from self.hold(columns).to_batches(max_chunksize=batch_size)


def brought(frame: Any) -> pa.Table:
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
    return _TYPES.get(kind) or (pieces[0].schema.field(column.name).type if pieces else pa.null())


def _as_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker does: every batch becomes one row, the bytes of an Arrow stream."""
    for batch in batches:
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([stream.getvalue().to_pybytes()], pa.binary())], names=["data"])


TableLike = Any
"""A path or several, a URI, a dataset, an object with `__arrow_c_stream__`, a Spark table, or a mapping of columns."""

BATCH_ROWS = 131_072

_CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")
_PARQUET_ENDINGS = (".parquet", ".pq")


@final
@dataclass(frozen=True)
class TableStream:
    """A table that can be read several times in batches, without ever being whole in memory (if it is a file).

    Attributes:
        arrow_schema: Column names and types; of text files the types that the first rows suggest.
        n_rows: How many rows there are, or None if only reading would tell (CSV).
        source: What errors call this table.
        paths: The files behind it; empty for a table in memory.
        in_memory: The table itself, if it is in memory.
        changes: Columns whose type is another one in a later file.
        dataset: The Arrow dataset behind it, if it is one.
    """

    arrow_schema: pa.Schema
    n_rows: int | None
    source: str
    paths: tuple[Path, ...] = ()
    in_memory: pa.Table | None = None
    changes: Mapping[str, TypeChange] = field(default_factory=dict)
    dataset: Any = None

    @property
    def column_names(self) -> list[str]:
        return list(self.arrow_schema.names)

    @property
    def local_files(self) -> tuple[Path, ...]:
        """The files of this machine behind it, also those of a dataset."""
        system = getattr(self.dataset, "filesystem", None)
        return tuple(map(Path, self.dataset.files)) if getattr(system, "type_name", "") == "local" else self.paths

    def require(self, columns: Sequence[str], role: str = "column") -> None:
        """Refuses the first column that does not exist, and suggests the nearest one that does."""
        for column in columns:
            if column not in self.arrow_schema.names:
                raise UnknownName.among(f"{role} of {self.source}", column, self.column_names)

    def check_types(self, columns: Sequence[str], categories: Sequence[str] = ()) -> None:
        """Refuses a column that changes its type from file to file; of categories, also one whose text changes."""
        for name in columns:
            if name in self.changes:
                self.changes[name].check(name, is_category=name in categories)

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
        problems = problems or RowProblems(hint='leave it out with prepare and on_error="skip"')
        if self.in_memory is not None:
            whole = self.in_memory.select(names).to_batches(max_chunksize=batch_rows)
            yield from _placed((batch for batch in whole if batch.num_rows), self.source)
        elif self.dataset is not None and not _is_text(self.dataset):
            yield from _placed(_dataset_batches(self.dataset, names, batch_rows, self.source), self.source)
        for file in self.paths if self.dataset is None else _text_files(self.dataset):
            if isinstance(file, Path) and is_parquet(file):
                n_bytes = file.stat().st_size / max(_parquet_rows(file), 1)
                for rows in _placed(_parquet_batches(file, names, batch_rows, dictionary_columns), file.name):
                    yield rows
                    problems.on_bytes(int(n_bytes * rows.batch.num_rows))
                continue
            plain = [name for name in names if name not in dictionary_columns]
            for rows in csv_rows(file, _text_form(file, self.dataset), problems, names, plain, dictionary_columns):
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
        return _open_prepared(table) or _open_places([str(table)], str(table))
    if isinstance(table, list | tuple) and table and all(isinstance(place, str | Path) for place in table):
        return _open_places(list(map(str, table)), f"{len(table)} places")
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    kind = type(table).__module__.partition(".")[0], type(table).__name__
    if kind == ("polars", "LazyFrame"):
        table = table.collect()
    if kind == ("pyarrow", "Scanner"):
        table = table.to_table()
    if kind[0] == "pyarrow" and kind[1].endswith("Dataset"):
        return _open_dataset(table, "the dataset")
    if hasattr(table, "mapInArrow"):  # Spark, which is not imported here
        return _open_dataset(ClusterTable(table), "the Spark table")
    if isinstance(table, pa.Table):
        held = table
    elif hasattr(table, "__arrow_c_stream__"):
        held = _arrow_table(table)
    elif isinstance(table, Mapping):
        held = pa.table({name: pa.array(values) for name, values in table.items()})
        for name, values in table.items():
            check_zones(name, values, held.schema.field(name).type)
    else:
        raise InvalidInput.of(
            "table",
            f"an object of type {type(table).__name__}",
            "a Parquet or CSV path, or a data frame with the Arrow C stream interface",
            "pass a path or several, or a pandas, polars, pyarrow or duckdb table",
        )
    check_names(held.schema, "the table")
    return TableStream(plain_schema(held.schema), held.num_rows, "the table", in_memory=held)


def _open_prepared(place: str | Path) -> TableStream | None:
    """Opens the folder of a prepared log as a table of values; None if it is none."""
    from monocal.tables.encoded import Decoded, is_encoded, open_encoded

    if is_uri(str(place)) or not is_encoded(place):
        return None
    rows = open_encoded(place)
    return replace(_open_dataset(Decoded(rows), str(place)), n_rows=rows.n_rows)


def _arrow_table(frame: Any) -> pa.Table:
    try:
        return pa.table(frame)
    except pa.ArrowInvalid as error:
        if "non-struct type" not in str(error):
            raise
        what = f"an object of type {type(frame).__name__}, one column"
        raise InvalidInput.of("table", what, "columns with names", "pass the frame it is from") from error


def _open_dataset(dataset: Any, source: str, *, is_found: bool = False) -> TableStream:
    """Opens a dataset: that of a caller, or one that was found at a place, whose files must have the same columns."""
    from pyarrow.dataset import get_partition_keys

    check_names(dataset.schema, source)
    changes: dict[str, TypeChange] = {}
    n_rows = None
    files = getattr(dataset, "files", [])
    if files and all(is_parquet(Path(name)) for name in files):
        fragments = list(dataset.get_fragments())
        first = fragments[0]
        if is_found:
            for fragment in fragments:
                known = [*fragment.physical_schema.names, *get_partition_keys(fragment.partition_expression)]
                _check_columns(dataset.schema.names, known, (Path(first.path).name, Path(fragment.path).name))
        for fragment in fragments[1:]:
            names = Path(first.path).name, Path(fragment.path).name
            changes = type_changes(first.physical_schema, fragment.physical_schema, names) | changes
        n_rows = sum(fragment.metadata.num_rows for fragment in fragments)
    return TableStream(plain_schema(dataset.schema), n_rows, source, changes=changes, dataset=dataset)


def _dataset_batches(dataset: Any, names: list[str], batch_rows: int, source: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from (batch for batch in dataset.to_batches(columns=names, batch_size=batch_rows) if batch.num_rows)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInput.of(
            "table", f"{source}, which cannot be read ({error})", "the files as they were written", "check the place"
        ) from error


def _open_places(places: Sequence[str], source: str) -> TableStream:
    if len(places) == 1 and is_uri(places[0]):
        return _open_dataset(find_dataset(places[0]), source, is_found=True)
    files = [path for place in places for path in find_files(place)]
    base = os.path.commonpath([_base(place) for place in places])
    below = [Path(os.path.abspath(path)) for path in files]
    if any("=" in part for path in below for part in path.relative_to(base).parts[:-1]):
        return _open_dataset(as_dataset([str(path) for path in below], base, source), source, is_found=True)
    return _open_files(files, source)


def _base(place: str) -> str:
    """Returns the folder below which folders may say columns: the place itself, or what a glob begins with."""
    path = Path(os.path.abspath(place))
    if path.exists():
        return str(path if path.is_dir() else path.parent)
    at = next(at for at, part in enumerate(path.parts) if glob.has_magic(part))
    return str(Path(*path.parts[:at]))


def find_files(pattern: str) -> list[Path]:
    """Returns the files behind a path, a folder or a glob, sorted by name; refuses a pattern without any."""
    path = Path(pattern)
    if path.is_file():
        return [path]
    if path.is_dir():
        files = _files_below(path)
        wish = "a folder with Parquet or CSV files"
    else:
        found = [Path(p) for p in sorted(glob.glob(pattern, recursive=True))]
        files = [path for path in found if path.is_file()] or [file for path in found for file in _files_below(path)]
        wish = "an existing file, folder or glob"
    if not files:
        raise InvalidInput.of("table", repr(pattern), wish, "check the path")
    return files


def _files_below(folder: Path) -> list[Path]:
    """The files of a folder and of those in it; in folders of values, as Hive writes them, also without an ending."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    visible = [path for path in found if not is_hidden(path.relative_to(folder).as_posix())]
    of_values = [path for path in visible if "=" in path.parent.name]
    return [path for path in visible if _is_known(path)] or of_values


def _open_files(paths: list[Path], source: str) -> TableStream:
    for path in paths:
        if not _is_known(path):
            raise InvalidInput.of(
                "table",
                repr(str(path)),
                f"a file ending in {', '.join(_PARQUET_ENDINGS + _CSV_ENDINGS)}",
                "convert it to Parquet",
            )
    first = _file_schema(paths[0])
    n_rows: int | None = 0
    changes: dict[str, TypeChange] = {}
    for path in paths:
        schema = first if path is paths[0] else _file_schema(path)
        check_names(schema, path.name)
        if is_parquet(path) and is_parquet(paths[0]):
            changes = type_changes(first, schema, (paths[0].name, path.name)) | changes
        _check_columns(first.names, schema.names, (paths[0].name, path.name))
        n_rows = None if n_rows is None or not is_parquet(path) else n_rows + _parquet_rows(path)
    return TableStream(first, n_rows, source, tuple(paths), changes=changes)


def _check_columns(wanted: Sequence[str], found: Sequence[str], names: tuple[str, str]) -> None:
    """Refuses a file without a column of the table."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InvalidInput.of(
            "table", f"{names[1]} without column {missing[0]!r}", f"the columns of {names[0]}", "align the files"
        )


def _file_schema(path: Path) -> pa.Schema:
    try:
        if is_parquet(path):
            return plain_schema(pq.read_schema(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInput.of(
            "table", f"{path.name}, which does not read as Parquet ({error})", "a whole Parquet file", "write it again"
        ) from error
    return csv_schema(path, CsvFormat.of_name(path.name))


def _parquet_rows(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def _parquet_batches(
    path: Path, names: list[str], batch_rows: int, dictionary_columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    try:
        # reading through a map would count the whole file as resident memory
        with pq.ParquetFile(
            path, read_dictionary=list(dictionary_columns), pre_buffer=False, page_checksum_verification=True
        ) as file:
            yield from file.iter_batches(batch_size=batch_rows, columns=names)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInput.of(
            "table", f"{path.name}, which is damaged ({error})", "the file as it was written", "copy or write it again"
        ) from error


def _placed(batches: Iterator[pa.RecordBatch], file: str) -> Iterator[RawRows]:
    first_row = 0
    for batch in map(plain_batch, batches):
        yield RawRows(batch, file, np.arange(first_row, first_row + batch.num_rows), "row")
        first_row += batch.num_rows


def _is_text(dataset: Any) -> bool:
    return type(getattr(dataset, "format", None)).__name__ == "CsvFileFormat"


def _text_files(dataset: Any) -> Iterator[TextFile]:
    """The files of a dataset of text, each with what its folders say."""
    from pyarrow.dataset import get_partition_keys

    if not _is_text(dataset):
        return
    for fragment in dataset.get_fragments():
        keys = get_partition_keys(fragment.partition_expression)
        parts = {name: pa.scalar(value, dataset.schema.field(name).type) for name, value in keys.items()}
        yield TextFile(fragment.path, fragment.filesystem, parts)


def _text_form(file: Path | TextFile, dataset: Any) -> CsvFormat:
    if dataset is None:
        return CsvFormat.of_name(file.name)
    options = dataset.format.parse_options
    return CsvFormat(options.delimiter, options.quote_char or None)


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet rather than delimited text."""
    return path.name.lower().endswith(_PARQUET_ENDINGS)


def _is_known(path: Path) -> bool:
    return path.name.lower().endswith(_PARQUET_ENDINGS + _CSV_ENDINGS)
