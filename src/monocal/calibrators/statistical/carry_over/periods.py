"""Days, hours and other stretches of time that the times of rows count."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.core.team import Shards

N_BLOCKS = 20
FEWEST_PERIODS = 10
"""With fewer natural periods than this, blocks are equal shares of the rows."""

MOST_PERIODS = 1000
"""Numbers that are no clock count as periods if there are at most this many: weeks, seasons, hours as numbers."""

_DAYS_BY_MAGNITUDE = ((1e8, 1e11, 86_400), (1e11, 1e14, 86_400_000), (1e14, 1e17, 86_400_000_000))
"""Moments since 1970 in seconds, milliseconds and microseconds are told apart by their size; a wrong reading would
only move the edges of blocks."""


def chosen_periods(mass: Floats) -> NDArray[np.int64] | None:
    """Returns the periods that begin a block, or None if they are too few.

    Arguments:
        mass: The share of the weight before each period, and after the last one.
    """
    if mass.shape[0] - 1 < FEWEST_PERIODS:
        return None
    middles = 0.5 * (mass[:-1] + mass[1:])
    block = np.minimum((middles * N_BLOCKS).astype(np.int64), N_BLOCKS - 1)
    chosen = np.flatnonzero(np.concatenate([[True], block[1:] != block[:-1]]))
    return chosen if chosen.shape[0] >= FEWEST_PERIODS else None


def day_length(time: float) -> int | None:
    """Returns how long a day is in the unit of a time, told by its size; None if it is no clock.

    Example:
        >>> day_length(1_767_225_600), day_length(1_767_225_600_000), day_length(40)
        (86400, 86400000, None)
    """
    return next((day for low, high, day in _DAYS_BY_MAGNITUDE if low <= abs(time) < high), None)


def periods_of(times: NDArray[Any]) -> NDArray[np.int64] | None:
    """Returns the number of every row's day, week or whatever the times count; None if they count nothing."""
    if times.dtype.kind == "M":
        return times.astype("datetime64[D]").astype(np.int64)
    if times.dtype.kind not in "iuf":
        return None
    day = day_length(float(times[-1]))
    if day is not None:
        return np.asarray(times // day, dtype=np.int64)
    distinct = np.concatenate([[0], np.cumsum(times[1:] != times[:-1])])
    return distinct if distinct[-1] < MOST_PERIODS else None


def clock_hours(times: NDArray[Any] | None, shards: Shards | None = None) -> NDArray[np.int64] | None:
    """Returns the hour, counted from 1970, in which every row lies; None if the times are no clock.

    Arguments:
        times: One per row, rising.
        shards: How the rows are cut and with whom they are compared; all of them at once if not given.

    Example:
        >>> clock_hours(np.array(["1970-01-01T06:59", "1970-01-02T18:00"], dtype="datetime64[m]")).tolist()
        [6, 42]
    """
    if times is None or (times.shape[0] == 0 and shards is None):
        return None
    if times.dtype.kind == "M":
        return times.astype("datetime64[h]").astype(np.int64)
    if times.dtype.kind not in "iuf":
        return None
    newest = float(times[-1]) if shards is None else float(shards.most(times.max(initial=0, keepdims=True))[0])
    day = day_length(newest)
    return None if day is None else np.asarray(times // (day // 24), dtype=np.int64)


def follows_the_hour(ids: NDArray[Any], hours: NDArray[np.int64], shards: Shards | None = None) -> bool:
    """Returns whether a field changes on the hour only, and more than twice a day: an hour, or a part of the day.

    Such values come back the next day, which a date or a batch does not, even where the log is too short to show it.

    Arguments:
        ids: The field's.
        hours: Of the same rows, rising.
        shards: How the rows are cut and with whom they are compared; all of them at once if not given.

    Example:
        >>> hours = np.repeat(np.arange(30), 5)
        >>> follows_the_hour(hours % 24 + 1, hours), follows_the_hour(hours // 24 + 1, hours)
        (True, False)
    """
    shards = shards or Shards.whole(len(hours))
    found = np.array([0.0, 0.0, -np.inf, -np.inf])
    for _, part in shards.parts():
        hour, values = hours[part], ids[part]
        if hour.size:
            changes = values[1:] != values[:-1]
            within = float(np.any(changes & (hour[1:] == hour[:-1])))
            here = [within, float(np.count_nonzero(changes)), -float(hour[0]), float(hour[-1])]
            found = np.maximum(found, here)
    any_within, n_changes, first, last = shards.team.most(found)
    return bool(not any_within and n_changes > 2.0 * max((last + first + 1.0) / 24.0, 1.0))
