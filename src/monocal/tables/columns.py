"""Columns of a table as checked numbers: scores, labels, weights, rates and times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.soft_labels import ASK_FOR_SOFT
from monocal.core.spaces import Floats
from monocal.tables.moments import WANTED, WAY_OUT, Moments, moments

Batch = Any
"""A record batch or a table."""


def numbers(batch: Batch, column: str, role: str, first_row: int = 0) -> Floats:
    """Returns a numeric column without nulls as float64; errors count rows from `first_row`.

    Example:
        >>> numbers(pa.table({"pctr": [0.1, 0.2]}), "pctr", "score").tolist()
        [0.1, 0.2]
        >>> numbers(pa.table({"pctr": ["high"]}), "pctr", "score")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: score column 'pctr': got values of type string; wanted numbers. Way out: ...
    """
    values = _numeric(batch, column, role)
    if values.null_count:
        row = first_row + int(pc.index(pc.is_null(values), True).as_py())
        raise InvalidInput.of(
            f"{role} column {column!r}",
            f"null at row {row} ({values.null_count} such rows)",
            "a number in every row",
            "drop or fill those rows first",
        )
    return _to_numpy(values)


def numbers_or_nan(values: pa.Array | pa.ChunkedArray, name: str) -> Floats:
    """Returns a field of numbers as float64, NaN where it is null.

    Example:
        >>> numbers_or_nan(pa.array([9, None]), "price").tolist()
        [9.0, nan]
        >>> numbers_or_nan(pa.array(["cheap"]), "price")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: numeric field 'price': got values of type string; wanted numbers. Way out: ...
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_null(values.type) or pa.types.is_integer(values.type):
        values = values.cast(pa.float64(), safe=False)  # integers beyond 2^53 are rounded
    return _to_numpy(_as_floats(values, f"numeric field {name!r}", "name it under fields if it holds categories"))


def labels_or_missing(batch: Batch, column: str, role: str, first_row: int = 0) -> NDArray[np.int8]:
    """Returns 0/1 labels as int8, and −1 where the label is null (the task was not observed there)."""
    values = _to_numpy(pc.fill_null(_numeric(batch, column, role), -1.0))
    missing = _numeric(batch, column, role).is_null().to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(~missing & (values != 0.0) & (values != 1.0))
    if bad.size:
        row = int(bad[0])
        raise InvalidInput.of(
            f"{role} column {column!r}",
            f"{values[row]:g} at row {first_row + row}",
            "0 or 1 (or null where the task was not observed)",
            ASK_FOR_SOFT,
        )
    return values.astype(np.int8)


def soft_labels_or_missing(batch: Batch, column: str, role: str, first_row: int = 0) -> Floats:
    """Returns labels in [0, 1] as float64, and −1 where the label is null.

    Example:
        >>> soft_labels_or_missing(pa.table({"click": [0.25, None]}), "click", "label").tolist()
        [0.25, -1.0]
    """
    values = _numeric(batch, column, role)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    found = _to_numpy(pc.fill_null(values, 0.0))
    bad = np.flatnonzero(~((found >= 0.0) & (found <= 1.0)))
    if bad.size:
        row = int(bad[0])
        raise InvalidInput.of(
            f"{role} column {column!r}",
            f"{found[row]:g} at row {first_row + row}",
            "numbers in [0, 1] (or null where the task was not observed), as soft_labels=True says",
            "divide counts by their number of trials, and name the trials as weight",
        )
    return np.where(missing, -1.0, found)


def moments_of(batch: Batch, column: str, first_row: int = 0) -> Moments:
    """Returns a time column as int64 by the rule of `monocal.tables.moments`; refuses the first row without a moment.

    Example:
        >>> moments_of(pa.table({"day": [1.0, 1.5]}), "day")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: time column 'day': got 1.5 at row 1; wanted a whole number, ...
    """
    values = _one_array(batch, column)
    found, bad = moments(values, column)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInput.of(
            f"time column {column!r}", f"{values[row].as_py()} at row {first_row + row}", WANTED, WAY_OUT
        )
    return found


def moments_or_none(batch: Batch, column: str, first_row: int = 0) -> Moments:
    """Returns a time column as int64, and −1 where it is null or an empty text.

    Example:
        >>> moments_or_none(pa.table({"came": [3, None]}), "came").tolist()
        [3, -1]
    """
    values = _one_array(batch, column)
    found, bad = moments(values, column)
    empty = pc.is_null(values).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(bad & ~empty)
    for row in wrong[:1].tolist() if not _is_text(values) else [at for at in wrong.tolist() if values[at].as_py()][:1]:
        raise InvalidInput.of(
            f"time column {column!r}", f"{values[row].as_py()} at row {first_row + row}", WANTED, WAY_OUT
        )
    return np.where(bad, -1, found)


def _is_text(values: pa.Array) -> bool:
    return bool(pa.types.is_string(values.type) or pa.types.is_large_string(values.type))


def _numeric(batch: Batch, column: str, role: str) -> pa.Array:
    return _as_floats(_one_array(batch, column), f"{role} column {column!r}", "convert the column first")


def _as_floats(values: pa.Array, argument: str, way_out: str) -> pa.Array:
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InvalidInput.of(argument, f"values of type {kind}", "numbers", way_out)
    return values.cast(pa.float64())


def _one_array(batch: Batch, column: str) -> pa.Array:
    values = batch.column(column)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    return values


def _to_numpy(values: pa.Array) -> Floats:
    result: Floats = values.to_numpy(zero_copy_only=False)
    return result
