"""Rows as they are read: their place in a file, what their columns hold, and what is wrong with either.

Malformed rows are refused or skipped, never repaired; files whose columns differ are refused.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput

OnError = Literal["raise", "skip"]

_EXAMPLES_KEPT = 10


class RawRows(NamedTuple):
    """Rows as they are in the log, and where they came from.

    Attributes:
        batch: The columns.
        file: The file, as errors call it.
        numbers: The line (or row) of each row in that file.
        unit: "line" for text files, counted from 1 with the header; "row" for tables, counted from 0.
        of_numbers: Of a text file's categories, the columns that hold numbers or booleans, as its first rows tell.
    """

    batch: pa.RecordBatch
    file: str
    numbers: NDArray[np.int64]
    unit: str = "line"
    of_numbers: frozenset[str] = frozenset()

    def column(self, name: str) -> pa.Array:
        return self.batch.column(name)

    def where(self, position: int) -> str:
        """Returns the place of one of these rows in words."""
        return f"{self.unit} {int(self.numbers[position])} of {self.file}"

    def keep(self, good: NDArray[np.bool_]) -> RawRows:
        """Returns the rows that are good."""
        if good.all():
            return self
        return self._replace(batch=self.batch.filter(pa.array(good)), numbers=self.numbers[good])

    def slice(self, start: int, n_rows: int) -> RawRows:
        """Returns at most `n_rows` rows from `start` on."""
        return self._replace(batch=self.batch.slice(start, n_rows), numbers=self.numbers[start : start + n_rows])


@final
class RowProblems:
    """Collects malformed rows and decides what happens to them.

    Arguments:
        on_error: "raise" refuses the first malformed row; "skip" leaves such rows out and counts them.
        on_bytes: Receives how many bytes of the files were read since it was last called; for a bar.
        hint: How rows could be left out, where `on_error` is no argument of the caller.

    Example:
        >>> problems = RowProblems("skip")
        >>> problems.report("train.csv", "line", 7, "23 columns", "24 columns")
        >>> problems.n_rows, problems.examples[0]
        (1, 'train.csv, line 7: got 23 columns; expected 24 columns')
        >>> RowProblems("raise").report("train.csv", "line", 7, "23 columns", "24 columns")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: train.csv, line 7: got 23 columns; expected 24 columns. Hint: ...
    """

    def __init__(
        self,
        on_error: OnError = "raise",
        on_bytes: Callable[[int], None] | None = None,
        hint: str = 'pass on_error="skip" to leave it out',
    ) -> None:
        if on_error not in get_args(OnError):
            raise InvalidInput.of("on_error", repr(on_error), '"raise" or "skip"', "say what to do with malformed rows")
        self.on_error = on_error
        self.on_bytes = on_bytes or (lambda _n_bytes: None)
        self._hint = hint
        self.n_rows = 0
        self.examples: list[str] = []

    def report(self, file: str, unit: str, number: int, got: str, expected: str) -> None:
        """Reports one malformed row."""
        if self.on_error == "raise":
            raise InvalidInput.of(f"{file}, {unit} {number}", got, expected, f"fix the {unit}, or {self._hint}")
        self.n_rows += 1
        if len(self.examples) < _EXAMPLES_KEPT:
            self.examples.append(f"{file}, {unit} {number}: got {got}; expected {expected}")


def codes_of(column: pa.DictionaryArray) -> NDArray[np.int64]:
    """Returns which value of its dictionary each row has; a null has the place behind the last one.

    Example:
        >>> codes_of(pa.array(["b", None, "b", "a"]).dictionary_encode()).tolist()
        [0, 2, 0, 1]
    """
    codes: NDArray[np.int64] = pc.fill_null(column.indices.cast(pa.int64()), len(column.dictionary)).to_numpy()
    return codes


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


Batch = Any
"""Rows with their place, a record batch or a table."""


def place_of(batch: Batch, row: int) -> str:
    """Returns the place of a row in words."""
    return batch.where(row) if isinstance(batch, RawRows) else f"row {row}"


def one_array(batch: Batch, column: str) -> pa.Array:
    """Returns a column of a batch or a table in one piece."""
    return one_chunk(batch.column(column))


def one_chunk(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column in one piece."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    return values


_KINDS = {
    "null": pa.types.is_null,
    "text": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    "integer": pa.types.is_integer,
    "boolean": pa.types.is_boolean,
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "date": pa.types.is_date,
    "naive": lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    "zoned": pa.types.is_timestamp,
}


def kind_of(kind: pa.DataType) -> str:
    """Returns what a column holds whatever the width of its type, and whether or not it has a dictionary.

    Example:
        >>> [kind_of(kind) for kind in (pa.int8(), pa.dictionary(pa.int32(), pa.large_string()), pa.binary())]
        ['integer', 'text', 'binary']
    """
    kind = plain_type(kind)
    if pa.types.is_dictionary(kind):
        return kind_of(kind.value_type)
    return next((name for name, fits in _KINDS.items() if fits(kind)), str(kind))


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
        before, after = (kind_of(kind) for kind in kinds)
        # 9 and 9.0 are one value, as a number and as a category; see `categories.as_text`
        if before != after and "null" not in (before, after) and {before, after} != {"integer", "float"}:
            text_alone = {before, after} <= {"integer", "boolean", "decimal", "float"}
            found[name] = TypeChange(str(kinds[0]), str(kinds[1]), files, text_alone)
    return found


def check_names(names: Sequence[str], source: str) -> None:
    """Refuses a table that has a column twice."""
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


def with_places(batches: Iterable[pa.RecordBatch], file: str) -> Iterator[RawRows]:
    """Yields batches that hold rows, in types as they are read here, with the row of the file each row is."""
    first_row = 0
    for batch in map(plain_batch, batches):
        if batch.num_rows:
            yield RawRows(batch, file, np.arange(first_row, first_row + batch.num_rows), "row")
        first_row += batch.num_rows
