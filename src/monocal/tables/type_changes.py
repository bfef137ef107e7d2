"""Columns that would be read as something else than they seem: twice there, of two types, with and without a zone.

And the types that only few functions of Arrow know, as those that all of them do.
"""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput


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


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a column's values as they are read here: text and bytes never as views.

    Example:
        >>> plain_type(pa.dictionary(pa.uint32(), pa.string_view(), ordered=True))
        DictionaryType(dictionary<values=string, indices=uint32, ordered=1>)
    """
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), ordered=kind.ordered)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Returns a schema with `plain_type` of every column."""
    return pa.schema([column.with_type(plain_type(column.type)) for column in schema], schema.metadata)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch with `plain_type` of every column."""
    schema = plain_schema(batch.schema)
    if schema == batch.schema:
        return batch
    return pa.RecordBatch.from_arrays([plain_array(column) for column in batch.columns], schema=schema)


def plain_array(column: pa.Array) -> pa.Array:
    """Returns a column as values of `plain_type`."""
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    return pa.DictionaryArray.from_arrays(column.indices, plain_array(column.dictionary), ordered=kind.ordered)


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
