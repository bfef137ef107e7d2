"""Writing a table batch by batch to Parquet or CSV; the file appears whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from monocal.core.errors import InvalidInput
from monocal.core.files import atomic_file, output_file
from monocal.tables.columns import RawRows
from monocal.tables.places import PARQUET_ENDINGS
from monocal.tables.texts import null_words


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


WRITABLE_ENDINGS = (*PARQUET_ENDINGS, ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


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
