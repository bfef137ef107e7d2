"""Rows as they are read, and their columns as checked numbers: scores, labels, weights, rates, fields, and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from monocal.core.checks import ASK_FOR_SOFT
from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats


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


def with_places(batches: Iterable[pa.RecordBatch], file: str) -> Iterator[RawRows]:
    """Yields batches that hold rows, in types as they are read here, with the row of the file each row is."""
    first_row = 0
    for batch in map(plain_batch, batches):
        if batch.num_rows:
            yield RawRows(batch, file, np.arange(first_row, first_row + batch.num_rows), "row")
        first_row += batch.num_rows


Batch = Any
"""Rows with their place, a record batch or a table."""


def place_of(batch: Batch, row: int) -> str:
    """Returns the place of a row in words."""
    return batch.where(row) if isinstance(batch, RawRows) else f"row {row}"


def one_chunk(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column in one piece."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    return values


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


NULL_WORDS = tuple(pa_csv.ConvertOptions().null_values)
"""What stands for no value where a number is wanted: nothing, NA, null, NaN and their like."""

TRUE, FALSE = (("true", "True", "TRUE"), ("false", "False", "FALSE"))
"""As Arrow, JSON and Spark write them, as Python does, and as spreadsheets do."""

_FORMS = {
    pa.int64(): r"^[-+]?\d+$",
    pa.float64(): r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(inf|Inf|INF|infinity|Infinity)$",
}


def null_words(text: pa.Array) -> NDArray[np.bool_]:
    """Says which texts are no value: nulls, and words such as NA.

    Example:
        >>> null_words(pa.array(["1", "NA", "", None, "no"])).tolist()
        [False, True, True, True, False]
    """
    found = pc.or_(pc.is_null(text), pc.is_in(text, value_set=pa.array(NULL_WORDS)))
    result: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return result


class Numbers(NamedTuple):
    """A column as numbers; where there is none, the value is 0.

    Attributes:
        values: One per row.
        missing: Which rows hold nothing.
        bad: Which rows hold something that is no number; NaN is one.
    """

    values: Floats
    missing: NDArray[np.bool_]
    bad: NDArray[np.bool_]

    def of_rows(self, column: pa.DictionaryArray) -> Numbers:
        """Returns the numbers of rows, if these are the numbers of their dictionary."""
        codes, with_null = codes_of(column), zip(self, (0.0, True, False), strict=True)
        return Numbers(*(np.append(values, of_null)[codes] for values, of_null in with_null))


def parse_numbers(text: pa.Array) -> Numbers:
    """Returns texts as numbers.

    Blanks around a number do not count, and true and false are 1 and 0.

    Example:
        >>> numbers, missing, bad = parse_numbers(pa.array(["0.5", " 2", "true", "NA", "high"]))
        >>> numbers.tolist(), missing.tolist(), bad.tolist()
        ([0.5, 2.0, 1.0, 0.0, 0.0], [False, False, False, True, False], [False, False, False, False, True])
    """
    try:
        return Numbers(filled(text.cast(pa.float64())), is_null(text), np.zeros(len(text), dtype=bool))
    except pa.ArrowInvalid:
        coded = pc.dictionary_encode(text)
    words = pc.ascii_trim_whitespace(coded.dictionary)
    missing = null_words(words)
    words = pc.if_else(pc.is_in(words, value_set=pa.array(TRUE)), "1", words)
    words = pc.if_else(pc.is_in(words, value_set=pa.array(FALSE)), "0", words)
    numbers, bad = parse_text(pc.if_else(pa.array(missing), "0", words), pa.float64())
    return Numbers(numbers, missing, bad).of_rows(coded)


def parse_text(text: pa.Array, kind: pa.DataType) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Returns texts as values of a type, and which of them are none; a value that is none is 0.

    All are parsed at once; if that fails, those that have the form of a number; if that fails, too, each distinct one.
    """
    try:
        return filled(text.cast(kind)), np.zeros(len(text), dtype=bool)
    except pa.ArrowInvalid:
        pass
    if kind in _FORMS:
        fits = pc.fill_null(pc.match_substring_regex(text, _FORMS[kind]), False)
        try:
            values = filled(pc.if_else(fits, text, "0").cast(kind))
        except pa.ArrowInvalid:  # beyond 64 bits
            pass
        else:
            return values, ~fits.to_numpy(zero_copy_only=False)
    coded = text.dictionary_encode()
    scalars = [_parse_one(value, kind) for value in coded.dictionary]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    bad = np.array([value is None for value in scalars], dtype=bool)
    return filled(pa.array(scalars, kind))[codes], bad[codes]


def _parse_one(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return value.cast(kind)
    except pa.ArrowInvalid:
        return None


def filled(column: pa.Array) -> NDArray[Any]:
    """Returns the values of a column as numpy has them, 0 where there is none; moments are microseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: NDArray[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values.copy()


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    """Says which rows hold nothing."""
    nulls: NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return nulls


def numbers_in(
    column: pa.Array | pa.ChunkedArray, argument: str = "column", hint: str = "convert the column first"
) -> Numbers:
    """Returns the numbers of a column of any type: the one conversion of scores, labels, weights, rates and fields.

    Integers beyond 2^53 are rounded. See `monocal.tables.columns` for text.

    Arguments:
        column: The values.
        argument: What errors call the column.
        hint: What to do with a column that holds no numbers, such as dates.

    Example:
        >>> numbers_in(pa.array([True, None])).values.tolist(), numbers_in(pa.array(["7", "x"])).bad.tolist()
        ([1.0, 0.0], [False, True])
    """
    column = one_chunk(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return numbers_in(column.dictionary, argument, hint).of_rows(column)
    if kind_of(kind) == "text":
        return parse_numbers(column)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif kind_of(kind) not in ("integer", "float", "decimal", "null"):
        raise InvalidInput.of(argument, f"values of type {kind}", "numbers", hint)
    missing = is_null(column)
    values = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False)
    return Numbers(values, missing, np.zeros(len(values), dtype=bool))


def numbers(batch: Batch, column: str, role: str) -> Floats:
    """Returns a column without nulls as float64.

    Example:
        >>> numbers(pa.table({"pctr": [0.1, 0.2]}), "pctr", "score").tolist()
        [0.1, 0.2]
        >>> numbers(pa.table({"pctr": ["high"]}), "pctr", "score")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: score column 'pctr': got 'high' at row 0; expected a number. Hint: ...
    """
    values, argument = one_chunk(batch.column(column)), f"{role} column {column!r}"
    found = numbers_in(values, argument)
    n_missing = int(found.missing.sum())
    if n_missing:
        raise InvalidInput.of(
            argument,
            f"null at {place_of(batch, int(np.argmax(found.missing)))} ({n_missing} such rows)",
            "a number in every row",
            "drop or fill those rows first",
        )
    is_text = bool(found.bad.all())
    hint = "name a column of numbers, or convert this one first" if is_text else "fix or drop that row"
    return _checked(batch, values, found, argument, "a number", hint)


def numbers_or_nan(values: pa.Array | pa.ChunkedArray | RawRows, name: str) -> Floats:
    """Returns a field of numbers (the column, or rows that have it) as float64, NaN where it is null.

    Example:
        >>> numbers_or_nan(pa.array([9, None]), "price").tolist()
        [9.0, nan]
        >>> numbers_or_nan(pa.array(["cheap"]), "price")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: numeric field 'price': got 'cheap' at row 0; expected a number. Hint: ...
    """
    hint = "convert it to numbers, or name it under fields= of the fit, if it holds categories"
    column = one_chunk(values.column(name) if isinstance(values, RawRows) else values)
    found = numbers_in(column, f"numeric field {name!r}", hint)
    numbers = _checked(values, column, found, f"numeric field {name!r}", "a number", hint)
    return np.where(found.missing, np.nan, numbers)


def labels_or_missing(batch: Batch, column: str, *, soft: bool = False) -> NDArray[Any]:
    """Returns 0/1 labels as int8, soft ones in [0, 1] as float64; −1 where null, as the task was not observed there.

    Example:
        >>> labels_or_missing(pa.table({"click": ["1", None]}), "click").tolist()
        [1, -1]
        >>> labels_or_missing(pa.table({"click": [0.25, None]}), "click", soft=True).tolist()
        [0.25, -1.0]
    """
    values, argument = one_chunk(batch.column(column)), f"label column {column!r}"
    found = numbers_in(values, argument)
    fits = (found.values == 0.0) | (found.values == 1.0)
    expected, hint = "0 or 1 (or null where the task was not observed)", ASK_FOR_SOFT
    if soft:
        fits = (found.values >= 0.0) & (found.values <= 1.0)
        expected = "numbers in [0, 1] (or null where the task was not observed), as soft_labels=True says"
        hint = "divide counts by their number of trials, and name the trials as weight"
    labels = _checked(batch, values, found._replace(bad=found.bad | ~fits), argument, expected, hint)
    return np.where(found.missing, -1.0, labels).astype(np.float64 if soft else np.int8)


def _checked(batch: Batch, values: pa.Array, found: Numbers, argument: str, expected: str, hint: str) -> Floats:
    """Returns the numbers; refuses the first row that holds another thing."""
    bad = found.bad & ~found.missing
    if bad.any():
        row = int(np.argmax(bad))
        value = values[row].as_py()
        shown = repr(value) if isinstance(value, str) else f"{float(value):g}"
        raise InvalidInput.of(argument, f"{shown} at {place_of(batch, row)}", expected, hint)
    return found.values
