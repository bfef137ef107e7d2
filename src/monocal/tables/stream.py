"""The table boundary: the one file that knows what a user may hand over.

A table is a path to Parquet or CSV (one file, several, a folder, also one partitioned by `column=value`, or a glob; CSV
may be gzip or zstd), a URI of the same, an Arrow dataset, any object with the Arrow C stream interface (pandas, polars,
pyarrow, duckdb), a polars LazyFrame, a Spark table, or a plain mapping of columns.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.uris import is_uri
from monocal.tables.categories import categories_of_text
from monocal.tables.cluster_table import ClusterTable
from monocal.tables.csv_records import CsvFormat
from monocal.tables.csv_rows import TextFile, csv_rows, csv_schema
from monocal.tables.places import as_dataset, find_dataset, is_hidden
from monocal.tables.row_problems import RawRows, RowProblems
from monocal.tables.type_changes import TypeChange, check_names, check_zones, plain_batch, plain_schema, type_changes

Table = Any
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


def open_table(table: Table) -> TableStream:
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
        return _open_places([str(table)], str(table))
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
