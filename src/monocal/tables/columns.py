"""Columns of a table as checked numbers: scores, labels, weights, rates, times, and the text of all these."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from monocal.core.checks import ASK_FOR_SOFT
from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.tables.problems import RawRows

NULL_WORDS = tuple(pa_csv.ConvertOptions().null_values)
"""What stands for no value where a number is wanted: nothing, NA, null, NaN and their like."""

_TRUE, _FALSE = (("true", "True", "TRUE"), ("false", "False", "FALSE"))

_FORMS = {
    pa.int64(): r"^[-+]?\d+$",
    pa.float64(): r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^[-+]?(inf|Inf|INF|infinity|Infinity)$",
}


def trimmed(text: pa.Array) -> pa.Array:
    """Returns texts without blanks around them."""
    return pc.ascii_trim_whitespace(text)


def null_words(text: pa.Array) -> NDArray[np.bool_]:
    """Says which texts are no value: nulls, and words such as NA.

    Example:
        >>> null_words(pa.array(["1", "NA", "", None, "no"])).tolist()
        [False, True, True, True, False]
    """
    found = pc.or_(pc.is_null(text), pc.is_in(text, value_set=pa.array(NULL_WORDS)))
    result: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return result


def parse_numbers(text: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns texts as numbers, which of them are missing, and which are no numbers.

    Blanks around a number do not count, and true and false are 1 and 0.

    Example:
        >>> numbers, missing, bad = parse_numbers(pa.array(["0.5", " 2", "true", "NA", "high"]))
        >>> numbers.tolist(), missing.tolist(), bad.tolist()
        ([0.5, 2.0, 1.0, 0.0, 0.0], [False, False, False, True, False], [False, False, False, False, True])
    """
    try:
        return _filled(text.cast(pa.float64())), _nulls(text), np.zeros(len(text), dtype=bool)
    except pa.ArrowInvalid:
        coded = pc.dictionary_encode(text)
    words = trimmed(coded.dictionary)
    missing = null_words(words)
    words = pc.if_else(pc.is_in(words, value_set=pa.array(_TRUE)), "1", words)
    words = pc.if_else(pc.is_in(words, value_set=pa.array(_FALSE)), "0", words)
    numbers, bad = parse_text(pc.if_else(pa.array(missing), "0", words), pa.float64())
    codes = pc.fill_null(coded.indices, len(words)).to_numpy(zero_copy_only=False)
    return np.append(numbers, 0.0)[codes], np.append(missing, True)[codes], np.append(bad, False)[codes]


def parse_text(text: pa.Array, kind: pa.DataType) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Returns texts as values of a type, and which of them are none; a value that is none is 0.

    All are parsed at once; if that fails, those that have the form of a number; if that fails, too, each distinct one.
    """
    try:
        return _filled(text.cast(kind)), np.zeros(len(text), dtype=bool)
    except pa.ArrowInvalid:
        pass
    if kind in _FORMS:
        fits = pc.fill_null(pc.match_substring_regex(text, _FORMS[kind]), False)
        try:
            values = _filled(pc.if_else(fits, text, "0").cast(kind))
        except pa.ArrowInvalid:  # beyond 64 bits
            pass
        else:
            return values, ~fits.to_numpy(zero_copy_only=False)
    coded = text.dictionary_encode()
    scalars = [_parse_one(value, kind) for value in coded.dictionary]
    codes = coded.indices.to_numpy(zero_copy_only=False)
    bad = np.array([value is None for value in scalars], dtype=bool)
    return _filled(pa.array(scalars, kind))[codes], bad[codes]


def _parse_one(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return value.cast(kind)
    except pa.ArrowInvalid:
        return None


def _filled(column: pa.Array) -> NDArray[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: NDArray[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values.copy()


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    nulls: NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return nulls


Moments = NDArray[np.int64]
Kind = Literal["number", "naive", "zoned"]

EXPECTED = "a whole number, a date or a timestamp"
HINT = "write fractions of seconds as timestamps, or multiply the column until its numbers are whole"
_EXACT = 2.0**53


def moments(column: pa.Array, name: str = "time") -> tuple[Moments, NDArray[np.bool_]]:
    """Returns a time column as int64, and which rows hold no moment.

    Dates, timestamps and text become microseconds since 1970; a timestamp without a zone is taken as UTC. Whole numbers
    are kept as they are, also where they are stored as floats; a fraction is no moment, because rounding it would
    silently reorder rows. Text may hold either.

    Example:
        >>> values, bad = moments(pa.array([3.0, 4.5, None]))
        >>> values.tolist(), bad.tolist()
        ([3, 0, 0], [False, True, True])
        >>> moments(pa.array(["1970-01-01T00:00:01", "86400"]))[0].tolist()
        [1000000, 86400]
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        values, bad = moments(column.dictionary)
        codes = pc.fill_null(column.indices.cast(pa.int64()), len(values)).to_numpy(zero_copy_only=False)
        return np.append(values, 0)[codes], np.append(bad, True)[codes]
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.int64), np.ones(len(column), dtype=bool)
    if pa.types.is_integer(kind):
        return _filled(column.cast(pa.int64())), _nulls(column)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _filled(column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())), _nulls(column)
    if pa.types.is_floating(kind):
        numbers = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < _EXACT)
        return np.where(whole, numbers, 0.0).astype(np.int64), ~whole
    if not _is_text(kind):
        raise InvalidInput.of(f"time column {name!r}", f"values of type {kind}", EXPECTED, "convert the column first")
    return _moments_of_text(trimmed(pc.fill_null(column.cast(pa.string()), "")))


def kinds_of_moments(column: pa.Array) -> set[Kind]:
    """Says which kinds of moments a column holds: numbers, times without a zone (dates, too), times with one.

    Example:
        >>> sorted(kinds_of_moments(pa.array(["2024-05-01T10:00", "2024-05-01T10:00+02:00", "7"])))
        ['naive', 'number', 'zoned']
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return kinds_of_moments(column.dictionary)
    if pa.types.is_timestamp(kind):
        return {"naive" if kind.tz is None else "zoned"}
    if pa.types.is_date(kind):
        return {"naive"}
    if not _is_text(kind):
        return {"number"}
    text = pc.unique(column.cast(pa.string())).drop_null()
    found: set[Kind] = set()
    date = pc.match_substring_regex(text, r"^\s*\d{4}-\d\d-\d\d")
    number = pc.match_substring_regex(text, r"^\s*[-+]?\d+(\.\d*)?\s*$")
    zoned = pc.match_substring_regex(text, r":\d\d(\.\d*)?\s*(Z|[-+]\d\d(:?\d\d)?)$|:\d\d[-+]\d\d(:?\d\d)?$")
    for name, mask in (("number", number), ("zoned", zoned), ("naive", pc.and_not(date, zoned))):
        if pc.any(mask).as_py():
            found.add(name)  # type: ignore[arg-type]
    return found


def check_one_kind(found: set[Kind], column: str) -> None:
    """Refuses times that cannot be compared: with and without a zone, or moments and bare numbers."""
    if len(found) > 1:
        names = {"number": "bare numbers", "naive": "times without a zone", "zoned": "times with a zone"}
        raise InvalidInput.of(
            f"time column {column!r}",
            " mixed with ".join(names[kind] for kind in sorted(found)),
            "one kind of time in all rows and files",
            "write all of them in UTC with a zone, or all without one",
        )


def _moments_of_text(text: pa.Array) -> tuple[Moments, NDArray[np.bool_]]:
    values, bad = parse_text(text, pa.int64())
    if bad.any():
        numbers, no_number = parse_text(text.filter(pa.array(bad)), pa.float64())
        values[bad], no_moment = moments(pa.array(np.where(no_number, np.nan, numbers)))
        bad[np.flatnonzero(bad)] = no_moment
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        if not bad.any():
            break
        parsed, no_moment = parse_text(text.filter(pa.array(bad)), kind)
        values[bad] = parsed
        bad[np.flatnonzero(bad)] = no_moment
    return values.astype(np.int64, copy=False), bad


Batch = Any
"""Rows with their place, a record batch or a table."""


_NUMBER_TYPES = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)


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
    column = _one_chunk(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        known = numbers_in(column.dictionary, argument, hint)
        codes = pc.fill_null(column.indices.cast(pa.int64()), len(known.values)).to_numpy(zero_copy_only=False)
        with_null = zip(known, (0.0, True, False), strict=True)
        return Numbers(*(np.append(values, of_null)[codes] for values, of_null in with_null))
    if _is_text(kind):
        return Numbers(*parse_numbers(column))
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or kind == pa.null()
    ):
        raise InvalidInput.of(argument, f"values of type {kind}", "numbers", hint)
    missing = pc.is_null(column).to_numpy(zero_copy_only=False)
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
    values, argument = _one_array(batch, column), f"{role} column {column!r}"
    found = numbers_in(values, argument)
    n_missing = int(found.missing.sum())
    if n_missing:
        raise InvalidInput.of(
            argument,
            f"null at {_where(batch, int(np.argmax(found.missing)))} ({n_missing} such rows)",
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
    column = _one_array(values, name) if isinstance(values, RawRows) else _one_chunk(values)
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
    values, argument = _one_array(batch, column), f"label column {column!r}"
    found = numbers_in(values, argument)
    fits = (found.values == 0.0) | (found.values == 1.0)
    expected, hint = "0 or 1 (or null where the task was not observed)", ASK_FOR_SOFT
    if soft:
        fits = (found.values >= 0.0) & (found.values <= 1.0)
        expected = "numbers in [0, 1] (or null where the task was not observed), as soft_labels=True says"
        hint = "divide counts by their number of trials, and name the trials as weight"
    labels = _checked(batch, values, found._replace(bad=found.bad | ~fits), argument, expected, hint)
    return np.where(found.missing, -1.0, labels).astype(np.float64 if soft else np.int8)


def moments_of(batch: Batch, column: str) -> Moments:
    """Returns a time column as int64 by the rule of `monocal.tables.columns`; refuses the first row without a moment.

    Example:
        >>> moments_of(pa.table({"day": [1.0, 1.5]}), "day")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: time column 'day': got 1.5 at row 1; expected a whole number, ...
    """
    values = _one_array(batch, column)
    found, bad = moments(values, column)
    if bad.any():
        raise _no_moment(batch, values, column, int(np.argmax(bad)))
    return found


def moments_or_none(batch: Batch, column: str) -> Moments:
    """Returns a time column as int64, and −1 where it is null or a text for nothing.

    Example:
        >>> moments_or_none(pa.table({"came": [3, None]}), "came").tolist()
        [3, -1]
    """
    values = _one_array(batch, column)
    found, bad = moments(values, column)
    plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    empty = null_words(plain) if _is_text(plain.type) else pc.is_null(plain).to_numpy(zero_copy_only=False)
    wrong = bad & ~empty
    if wrong.any():
        raise _no_moment(batch, values, column, int(np.argmax(wrong)))
    return np.where(bad, -1, found)


def _no_moment(batch: Batch, values: pa.Array, column: str, row: int) -> InvalidInput:
    return InvalidInput.of(f"time column {column!r}", f"{values[row].as_py()} at {_where(batch, row)}", EXPECTED, HINT)


def _checked(batch: Batch, values: pa.Array, found: Numbers, argument: str, expected: str, hint: str) -> Floats:
    """Returns the numbers; refuses the first row that holds another thing."""
    bad = found.bad & ~found.missing
    if bad.any():
        row = int(np.argmax(bad))
        value = values[row].as_py()
        shown = repr(value) if isinstance(value, str) else f"{float(value):g}"
        raise InvalidInput.of(argument, f"{shown} at {_where(batch, row)}", expected, hint)
    return found.values


def _where(batch: Batch, row: int) -> str:
    return batch.where(row) if isinstance(batch, RawRows) else f"row {row}"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _one_array(batch: Batch, column: str) -> pa.Array:
    return _one_chunk(batch.column(column))


def _one_chunk(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    return values


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
