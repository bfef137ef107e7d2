"""Times of rows: a column of moments as whole numbers, windows of them, and times that cannot be compared."""

from __future__ import annotations

import datetime
import math
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.tables.columns import (
    Batch,
    RawRows,
    codes_of,
    filled,
    is_null,
    kind_of,
    null_words,
    one_chunk,
    parse_text,
    place_of,
)

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
        codes = codes_of(column)
        return np.append(values, 0)[codes], np.append(bad, True)[codes]
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.int64), np.ones(len(column), dtype=bool)
    if pa.types.is_integer(kind):
        return filled(column.cast(pa.int64())), is_null(column)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return filled(column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())), is_null(column)
    if pa.types.is_floating(kind):
        numbers = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < _EXACT)
        return np.where(whole, numbers, 0.0).astype(np.int64), ~whole
    if kind_of(kind) != "text":
        raise InvalidInput.of(f"time column {name!r}", f"values of type {kind}", EXPECTED, "convert the column first")
    return _moments_of_text(pc.ascii_trim_whitespace(pc.fill_null(column.cast(pa.string()), "")))


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
    if kind_of(kind) != "text":
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


def moments_of(batch: Batch, column: str, *, may_be_missing: bool = False) -> Moments:
    """Returns a time column as int64 by the rule of `moments`; refuses the first row without a moment.

    Arguments:
        batch: The rows.
        column: The column.
        may_be_missing: Whether a null, or a text for nothing, is −1 instead.

    Example:
        >>> moments_of(pa.table({"came": [3, None]}), "came", may_be_missing=True).tolist()
        [3, -1]
        >>> moments_of(pa.table({"day": [1.0, 1.5]}), "day")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: time column 'day': got 1.5 at row 1; expected a whole number, ...
    """
    values = one_chunk(batch.column(column))
    found, bad = moments(values, column)
    missing = bad & _is_empty(values) if may_be_missing else np.zeros(len(bad), dtype=bool)
    wrong = bad & ~missing
    if wrong.any():
        row = int(np.argmax(wrong))
        got = f"{values[row].as_py()} at {place_of(batch, row)}"
        raise InvalidInput.of(f"time column {column!r}", got, EXPECTED, HINT)
    return np.where(missing, -1, found) if may_be_missing else found


def _is_empty(values: pa.Array) -> NDArray[np.bool_]:
    plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    return null_words(plain) if kind_of(plain.type) == "text" else is_null(plain)


class TimeWindow(NamedTuple):
    """Moments `first ≤ moment < end` of a time column."""

    column: str
    first: float
    end: float

    @classmethod
    def of(cls, schema: pa.Schema, time: str | None, since: str | None, until: str | None) -> TimeWindow | None:
        """Returns the window that two texts say, or None where neither is given."""
        if since is None and until is None:
            return None
        if time is None:
            raise InvalidInput.of(
                "time", None, "the column that since= and until= refer to", 'name the time column, time="timestamp"'
            )
        kind = schema.field(time).type
        first = -math.inf if since is None else moment_of(since, kind, "since")
        return cls(time, first, math.inf if until is None else moment_of(until, kind, "until"))

    def rows_of(self, rows: RawRows) -> RawRows:
        """Returns the rows that lie in the window."""
        at = moments_of(rows, self.column)
        return rows.keep((at >= self.first) & (at < self.end))


def moment_of(text: str, kind: pa.DataType, argument: str = "moment") -> int:
    """Returns a moment as the integer that a time column of this type is read as.

    Timestamps, dates and text are microseconds since 1970 (UTC); a column of numbers is compared with a number. Which
    of the two it is follows from the column, never from the value.

    Arguments:
        text: A date, a date and time, or a number.
        kind: The type of the time column.
        argument: What the moment is called in errors.

    Example:
        >>> moment_of("1970-01-02", pa.timestamp("s")), moment_of("86400", pa.int64())
        (86400000000, 86400)
        >>> moment_of("1970-01-02", pa.int64(), "since")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: since: got '1970-01-02'; expected a number, as in the time column (int64). ...
    """
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            return int(float(text))
        except ValueError:
            raise InvalidInput.of(
                argument, repr(text), f"a number, as in the time column ({kind})", "write it in the column's unit"
            ) from None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput.of(argument, repr(text), "a date or time", "write 2024-05-01 or 2024-05-01T12:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
