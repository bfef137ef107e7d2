"""Lengths of time as people write them."""

from __future__ import annotations

import re

from monocal.core.errors import InvalidInput

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*")

DAY = 86_400_000_000
"""A day in microseconds, in which times that are dates are counted."""


def duration_of(text: str, *, has_dates: bool, argument: str) -> int:
    """Returns a length of time in the unit of a time column: microseconds for dates, the column's own for numbers.

    Arguments:
        text: A number with s, m, h, d or w for dates; a bare number for a column of numbers.
        has_dates: Whether the column holds dates or timestamps.
        argument: What it is called in errors.

    Example:
        >>> duration_of("7d", has_dates=True, argument="window") // DAY, duration_of("7", has_dates=False, argument="w")
        (7, 7)
        >>> duration_of("7d", has_dates=False, argument="window")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: window: got '7d'; expected a number in the unit of the time column. ...
    """
    found = _FORM.fullmatch(text)
    number, unit = (float(found[1]), found[2]) if found else (0.0, "")
    if has_dates:
        if number <= 0.0 or not unit:
            raise InvalidInput.of(
                argument, repr(text), "a length such as 7d, 12h or 30m", "write the number and a unit"
            )
        return round(number * _SECONDS[unit] * 1_000_000)
    if number < 1.0 or unit:
        raise InvalidInput.of(
            argument, repr(text), "a number in the unit of the time column", "write 604800 for a week in seconds"
        )
    return round(number)
