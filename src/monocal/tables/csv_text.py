"""Text columns with the types that the first rows of their file suggest."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from monocal.core.errors import InvalidInput
from monocal.tables.row_problems import RawRows
from monocal.tables.text_numbers import null_words


def typed_columns(rows: RawRows, types: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns the named columns with the types of a schema; where that says text, as they are written.

    Arguments:
        rows: Columns as text, or with these types already.
        types: The wanted types.
        columns: Which columns.

    Example:
        >>> import numpy as np
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
            "mend that row, or write CSV instead of Parquet",
        ) from error
