"""The files of tables: where they lie (paths, folders, globs, partitioned folders, object stores), and writing one."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monocal.core.errors import InvalidInput
from monocal.core.files import atomic_file, output_file
from monocal.tables.columns import RawRows
from monocal.tables.texts import null_words

CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")
PARQUET_ENDINGS = (".parquet", ".pq")
WRITABLE_ENDINGS = (*PARQUET_ENDINGS, *CSV_ENDINGS)
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


class DataFile(NamedTuple):
    """A file of a table, wherever it lies.

    Attributes:
        path: Its place in the file system.
        system: An Arrow file system; None is this machine's.
        parts: Columns that the folder says, as in `day=1`, and their value.
    """

    path: str
    system: Any = None
    parts: Mapping[str, pa.Scalar] = {}

    @property
    def name(self) -> str:
        """What errors call it."""
        return Path(self.path).name

    @property
    def is_local(self) -> bool:
        """Whether it lies on this machine."""
        return self.system is None or getattr(self.system, "type_name", "") == "local"

    def schema_with_parts(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of the file with those that its folder says beside them."""
        said = [pa.field(name, value.type) for name, value in self.parts.items() if name not in schema.names]
        return pa.schema([*schema, *said], schema.metadata)

    def with_parts(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Returns the named columns of rows of the file, those that its folder says among them."""
        for name, value in self.parts.items():
            if name in names and name not in batch.schema.names:
                batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        return batch.select(names)

    def open(self) -> Any:
        return pa.OSFile(self.path, "rb") if self.is_local else self.system.open_input_file(self.path)


def not_readable(name: str, kind: str, error: object) -> InvalidInput:
    """Returns the refusal of a file, or a place with several, that cannot be read."""
    return InvalidInput.of(
        "table", f"{name}, which does not read as {kind} ({error})", "a whole file", "check it, or write it again"
    )


@contextmanager
def reading(name: str, kind: str = "a table") -> Iterator[None]:
    """Refuses what Arrow or the system cannot read, by its name."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise not_readable(name, kind, error) from error


def find_files(pattern: str) -> list[Path]:
    """Returns the files behind a path, a folder or a glob, sorted by name; refuses a pattern without any."""
    path = Path(pattern)
    if path.is_file():
        return [path]
    if path.is_dir():
        files, expected = _files_below(path), "a folder with Parquet or CSV files"
    else:
        found = [Path(p) for p in sorted(glob.glob(pattern, recursive=True))]
        files = [path for path in found if path.is_file()] or [file for path in found for file in _files_below(path)]
        expected = "an existing file, folder or glob"
    if not files:
        raise InvalidInput.of("table", repr(pattern), expected, "check the path")
    return files


def _files_below(folder: Path) -> list[Path]:
    """The files of a folder and of those in it; in folders of values, as Hive writes them, also without an ending."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    visible = [path for path in found if not is_hidden(path.relative_to(folder).as_posix())]
    of_values = [path for path in visible if "=" in path.parent.name]
    return [path for path in visible if is_known(path.name)] or of_values


def is_hidden(path: str) -> bool:
    """Whether a file, or a folder on the way to it, is one that Spark and others write beside a table.

    Example:
        >>> is_hidden("_temporary/0/part.parquet"), is_hidden("_day=1/part.parquet"), is_hidden("day=1/.part.crc")
        (True, False, True)
    """
    return any(part.startswith((".", "_")) and "=" not in part for part in path.split("/") if part)


def base_of(place: str) -> str:
    """Returns the folder below which folders may say columns: the place itself, or what a glob begins with."""
    path = Path(os.path.abspath(place))
    if path.exists():
        return str(path if path.is_dir() else path.parent)
    at = next(at for at, part in enumerate(path.parts) if glob.has_magic(part))
    return str(Path(*path.parts[:at]))


def with_parts(names: list[str], base: str, system: Any, source: str) -> list[DataFile]:
    """Returns files with the columns that folders below `base` say, as `day=1`; what folders above say is no column."""
    below = names if system is not None else [os.path.abspath(name) for name in names]
    if not any("=" in part for name in below for part in name[len(base) :].split("/")[:-1]):
        return [DataFile(name, system) for name in names]
    from pyarrow import dataset

    kind = "csv" if is_text(names[0]) else "parquet"
    with reading(source):
        found = dataset.dataset(
            sorted(below), filesystem=system, format=kind, partitioning="hive", partition_base_dir=base
        )
    return [data_file(fragment, found.schema) for fragment in found.get_fragments()]


def data_file(fragment: Any, schema: pa.Schema) -> DataFile:
    """Returns the file of a fragment of an Arrow dataset."""
    from pyarrow.dataset import get_partition_keys

    keys = get_partition_keys(fragment.partition_expression)
    parts = {name: pa.scalar(value, schema.field(name).type) for name, value in keys.items()}
    return DataFile(fragment.path, fragment.filesystem, parts)


def files_at(uri: str) -> tuple[list[str], str, Any]:
    """Returns the files behind a URI, the path that they are below, and their file system."""
    from pyarrow import fs

    system, path = open_place(uri, "table")
    with reading(uri):
        (info,) = system.get_file_info([path])
        names = [path]
        if info.type == fs.FileType.Directory:
            inside = system.get_file_info(fs.FileSelector(path, recursive=True))
            names = [entry.path for entry in inside if entry.type == fs.FileType.File]
            names = sorted(name for name in names if not is_hidden(name[len(path) :]))
    if not names or info.type == fs.FileType.NotFound:
        raise InvalidInput.of("table", repr(uri), "a place with Parquet or CSV files", "check the path")
    return names, path, system


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


def is_parquet(name: str) -> bool:
    """Whether the ending of a file's name says Parquet."""
    return name.lower().endswith(PARQUET_ENDINGS)


def is_text(name: str) -> bool:
    """Whether the ending of a file's name says delimited text, packed or not."""
    return name.lower().endswith(CSV_ENDINGS)


def is_known(name: str) -> bool:
    """Whether the ending of a file's name says what is in it."""
    return is_parquet(name) or is_text(name)


def csv_header(schema: pa.Schema, delimiter: str = ",") -> bytes:
    """Returns the first line of a file."""
    names = _quoted(pa.array(schema.names, pa.string()), delimiter)
    return (delimiter.join(names.to_pylist()) + "\n").encode()


def csv_lines(batch: pa.RecordBatch, delimiter: str = ",") -> bytes:
    r"""Returns a batch's rows as CSV; a null is an empty value.

    Example:
        >>> csv_lines(pa.record_batch({"ad": ["a,b", None], "hour": ["07", "8"], "pctr": [0.25, 0.5]}))
        b'"a,b",07,0.25\n,8,0.5\n'
    """
    if not batch.num_rows:
        return b""
    columns = [_quoted(_text(batch, name), delimiter) for name in batch.schema.names]
    lines = pc.binary_join_element_wise(*columns, pa.scalar(delimiter, pa.large_string()))
    whole = pc.binary_join_element_wise(lines, pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string()))
    # the values of a string array lie one after the other, which is the file's text
    _, ends, values = whole.buffers()
    first, last = np.frombuffer(ends, np.int64)[[whole.offset, whole.offset + len(whole)]]
    text: bytes = values.slice(int(first), int(last - first)).to_pybytes()
    return text


def _text(batch: pa.RecordBatch, name: str) -> pa.Array:
    values = batch.column(name)
    try:
        return pc.fill_null(values.cast(pa.large_string()), "")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput.of(
            f"column {name!r}",
            f"values of type {values.type}",
            "values that have a text form",
            "write Parquet instead of CSV",
        ) from error


def _quoted(values: pa.Array, delimiter: str) -> pa.Array:
    if not _may_need_quotes(values, delimiter):
        return values
    needs = pc.match_substring_regex(values, f'["\\r\\n{delimiter}]')
    escaped = pc.replace_substring(values, '"', '""')
    quote = pa.scalar('"', values.type)
    return pc.if_else(needs, pc.binary_join_element_wise(quote, escaped, quote, pa.scalar("", values.type)), values)


def _may_need_quotes(values: pa.Array, delimiter: str) -> bool:
    """Looks through the array's bytes at once, which is many times faster than value by value."""
    data = values.buffers()[2]
    text = b"" if data is None else data.to_pybytes()
    return any(sign in text for sign in (b'"', b"\n", b"\r", delimiter.encode()))


class _CsvWriter:
    def __init__(self, sink: Any, schema: pa.Schema, delimiter: str) -> None:
        self._sink, self._delimiter = sink, delimiter
        sink.write(csv_header(schema, delimiter))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._sink.write(csv_lines(batch, self._delimiter))


@contextmanager
def write_table(path: str | Path, schema: pa.Schema) -> Iterator[Any]:
    """Opens a writer whose file is renamed into place when everything was written, and removed on any error.

    Arguments:
        path: The file; its ending decides between Parquet and (compressed) CSV or TSV.
        schema: Columns and types of every batch.

    Example:
        >>> import tempfile
        >>> batch = pa.record_batch({"pctr": [0.1, 0.2], "site": ["a", "b"]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with write_table(Path(folder) / "a.csv", batch.schema) as writer:
        ...         writer.write_batch(batch)
        ...     (Path(folder) / "a.csv").read_text().split()
        ['pctr,site', '0.1,a', '0.2,b']
    """
    target = output_table(path)
    with atomic_file(target) as temporary:
        if target.name.lower().endswith(PARQUET_ENDINGS):
            options = {"compression": "zstd", "use_dictionary": _repeating(schema), "write_page_checksum": True}
            with pq.ParquetWriter(temporary, schema, **options) as parquet:
                yield parquet
        else:
            compression = _COMPRESSIONS.get(target.suffix.lower())
            with pa.output_stream(str(temporary), compression=compression) as sink:
                yield _CsvWriter(sink, schema, "\t" if ".tsv" in target.name.lower() else ",")


def output_table(place: str | Path) -> Path:
    """Returns the path of a table to write; refuses one that cannot be written, or whose ending names no format."""
    path = output_file(place)
    if not path.name.lower().endswith(WRITABLE_ENDINGS):
        raise InvalidInput.of(
            "output file", repr(str(path)), f"a file ending in {', '.join(WRITABLE_ENDINGS)}", "add the ending you want"
        )
    return path


def _repeating(schema: pa.Schema) -> list[str]:
    # scores hardly repeat, so a dictionary of them would only cost time and space
    return [column.name for column in schema if not pa.types.is_floating(column.type)]


def typed_columns(rows: RawRows, types: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns the named columns with the types of a schema; where that says text, as they are written.

    Arguments:
        rows: Columns as text, or with these types already.
        types: The wanted types.
        columns: Which columns.

    Example:
        >>> rows = RawRows(pa.record_batch({"hour": ["07", "NA"], "site": ["a", "NA"]}), "log.csv", np.arange(2, 4))
        >>> typed_columns(rows, pa.schema({"hour": pa.int64(), "site": pa.string()}), ["hour", "site"]).to_pylist()
        [{'hour': 7, 'site': 'a'}, {'hour': None, 'site': 'NA'}]
    """
    return pa.RecordBatch.from_pydict({name: _typed(rows, name, types.field(name).type) for name in columns})


def _typed(rows: RawRows, name: str, kind: pa.DataType) -> pa.Array:
    values = rows.column(name)
    if pa.types.is_dictionary(values.type) and rows.unit == "line":
        values = values.cast(pa.string())
    if values.type == kind:
        return values
    try:
        if pa.types.is_string(values.type) and not pa.types.is_large_string(kind):
            values = pc.if_else(pa.array(null_words(values)), pa.scalar(None, pa.string()), values)
            values = pc.ascii_trim_whitespace(values)
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidInput.of(
            f"column {name!r}",
            f"a value that is no {kind} ({error}) in {rows.file}",
            "the type of the file's first rows throughout",
            "correct that row, or write CSV instead of Parquet",
        ) from error
