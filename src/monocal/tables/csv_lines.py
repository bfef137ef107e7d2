"""Rows of a batch as lines of CSV, with quotes only where a value needs them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monocal.core.errors import InvalidInput


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
