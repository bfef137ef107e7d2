"""Time columns as whole numbers: one rule for every reader."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.tables.text_numbers import parse_text, trimmed

Moments = NDArray[np.int64]
Kind = Literal["number", "naive", "zoned"]

WANTED = "a whole number, a date or a timestamp"
WAY_OUT = "write fractions of seconds as timestamps, or multiply the column until its numbers are whole"
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
        raise InvalidInput.of(f"time column {name!r}", f"values of type {kind}", WANTED, "convert the column first")
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
        told = {"number": "bare numbers", "naive": "times without a zone", "zoned": "times with a zone"}
        raise InvalidInput.of(
            f"time column {column!r}",
            " mixed with ".join(told[kind] for kind in sorted(found)),
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


def _filled(column: pa.Array) -> Moments:
    values: Moments = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values.copy()


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    nulls: NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return nulls


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
