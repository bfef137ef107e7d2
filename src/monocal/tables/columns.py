"""Columns of a table as checked numbers: scores, labels, weights, rates and times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.soft_labels import ASK_FOR_SOFT
from monocal.core.spaces import Floats
from monocal.tables.moments import WANTED, WAY_OUT, Moments, moments
from monocal.tables.row_problems import RawRows
from monocal.tables.text_numbers import null_words, parse_numbers

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

    Integers beyond 2^53 are rounded. See `monocal.tables.text_numbers` for text.

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
    hint = "name a column of numbers, or convert this one first" if is_text else "mend or drop that row"
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


def labels_or_missing(batch: Batch, column: str, role: str) -> NDArray[np.int8]:
    """Returns 0/1 labels as int8, and −1 where the label is null (the task was not observed there)."""
    values, argument = _one_array(batch, column), f"{role} column {column!r}"
    found = numbers_in(values, argument)
    bad = found.bad | ((found.values != 0.0) & (found.values != 1.0))
    expected = "0 or 1 (or null where the task was not observed)"
    labels = _checked(batch, values, found._replace(bad=bad), argument, expected, ASK_FOR_SOFT)
    return np.where(found.missing, -1.0, labels).astype(np.int8)


def soft_labels_or_missing(batch: Batch, column: str, role: str) -> Floats:
    """Returns labels in [0, 1] as float64, and −1 where the label is null.

    Example:
        >>> soft_labels_or_missing(pa.table({"click": [0.25, None]}), "click", "label").tolist()
        [0.25, -1.0]
    """
    values, argument = _one_array(batch, column), f"{role} column {column!r}"
    found = numbers_in(values, argument)
    bad = found.bad | ~((found.values >= 0.0) & (found.values <= 1.0))
    expected = "numbers in [0, 1] (or null where the task was not observed), as soft_labels=True says"
    hint = "divide counts by their number of trials, and name the trials as weight"
    labels = _checked(batch, values, found._replace(bad=bad), argument, expected, hint)
    return np.where(found.missing, -1.0, labels)


def moments_of(batch: Batch, column: str) -> Moments:
    """Returns a time column as int64 by the rule of `monocal.tables.moments`; refuses the first row without a moment.

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
    return InvalidInput.of(f"time column {column!r}", f"{values[row].as_py()} at {_where(batch, row)}", WANTED, WAY_OUT)


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
