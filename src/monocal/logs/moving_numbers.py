"""Numeric fields that move with time: what a fit knows of them says nothing about the rows that come."""

from __future__ import annotations

import warnings

import numpy as np

from monocal.core.errors import MonocalWarning
from monocal.core.spaces import Floats
from monocal.tables.columns import numbers_or_nan
from monocal.tables.rows import Rows

_NEWEST_SHARE = 0.2
_MOST = 0.5
_ENOUGH_ROWS = 1_000
"""A few rows in the order of a price are no sign of time."""


def warn_about_moving(rows: Rows) -> None:
    """Warns about numeric fields whose newest values lie where the older rows have none: a time, a counter, an age.

    Later rows lie beyond the last knot of such a field, where the effect stays what it was at the end of the fit.

    Arguments:
        rows: The rows of a fit, in time order.
    """
    time = rows.roles.time
    moving = [name for name in rows.roles.numeric if name != time and is_moving(_numbers(rows, name))]
    for name, what in [
        *([(time, "the column that orders rows")] if time in rows.roles.numeric else []),
        *((name, "whose newest values lie beyond nearly all older ones") for name in moving),
    ]:
        warnings.warn(
            f"numeric: got {name!r}, {what}: later rows lie beyond the last knot, where the effect stays what it was "
            "at the end of the fit. Hint: leave it out, or name a column whose values come back, such as the hour",
            MonocalWarning,
            stacklevel=4,
        )


def is_moving(numbers: Floats) -> bool:
    """Returns whether most of the newest fifth lies beyond 99 % of the rows before it, above or below.

    Arguments:
        numbers: A column in time order; NaN where it is null.

    Example:
        >>> is_moving(np.arange(2_000.0)), is_moving(np.arange(2_000.0) % 24)
        (True, False)
    """
    known = numbers[~np.isnan(numbers)]
    if known.size < _ENOUGH_ROWS:
        return False
    cut = int(known.size * (1.0 - _NEWEST_SHARE))
    low, high = np.quantile(known[:cut], (0.01, 0.99))
    newest = known[cut:]
    return bool(max(np.mean(newest > high), np.mean(newest < low)) > _MOST)


def _numbers(rows: Rows, name: str) -> Floats:
    column = rows.fields[name]
    return numbers_or_nan(column.known_values, name)[column.ids]
