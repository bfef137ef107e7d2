"""CSV values as they are written, so that a file can be written again to the letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from monocal.core.errors import InvalidInput
from monocal.tables.stream import TableStream


def read_as_text(stream: TableStream) -> TableStream:
    """Returns the same CSV files with every column as text: 007 stays 007, and 1e-3 stays 1e-3."""
    return replace(stream, arrow_schema=pa.schema([(name, pa.string()) for name in stream.column_names]))


def typed_columns(batch: pa.RecordBatch, types: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns the named columns with the types that reading the file would have given them.

    Arguments:
        batch: Columns as text.
        types: The types of the file's columns.
        columns: Which ones are wanted.

    Example:
        >>> text = pa.record_batch({"hour": ["07", "NA"], "site": ["a", "NA"]})
        >>> typed_columns(text, pa.schema({"hour": pa.int64(), "site": pa.string()}), ["hour", "site"]).to_pylist()
        [{'hour': 7, 'site': 'a'}, {'hour': None, 'site': 'NA'}]
    """
    return pa.RecordBatch.from_pydict({name: _typed(batch, name, types.field(name).type) for name in columns})


def _typed(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    values = batch.column(name)
    if pa.types.is_string(kind):
        return values
    nothing = pc.is_in(values, value_set=pa.array(pa_csv.ConvertOptions().null_values))
    try:
        return pc.if_else(nothing, pa.scalar(None, pa.string()), values).cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidInput.of(
            f"column {name!r}",
            f"a value that is no {kind} ({error})",
            "the type of the file's first rows throughout",
            "mend that row, or store the log as Parquet",
        ) from error
