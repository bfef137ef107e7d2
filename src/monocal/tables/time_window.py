"""Rows of a stretch of time, given by text from a person."""

from __future__ import annotations

import datetime
import math
from typing import NamedTuple

import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.tables.columns import moments_of
from monocal.tables.row_problems import RawRows


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
