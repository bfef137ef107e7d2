"""Cutting time into windows of a round length."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.spaces import Floats

MOST_WINDOWS = 40
ROW_WINDOWS = 24
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_LENGTHS_SECONDS = (
    *(n * _MINUTE for n in (1, 5, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 91, 365)),
)
_EPOCH_UNITS = ((1, 1e8, 5e9), (1_000, 1e11, 5e12), (1_000_000, 1e14, 5e15))
"""Whole numbers between 1973 and 2128 when read as seconds, milliseconds or microseconds since 1970."""


@final
@dataclass(frozen=True, eq=False)
class Windows:
    """Rows cut into stretches of time.

    Attributes:
        ids: The window of each row.
        starts: The start of each window: seconds since 1970 if `calendar`, else its first row or moment.
        calendar: Whether starts are moments of the calendar.
        length: The length in words, such as "1 day".
        kind: What was cut, in words, for a caption.
    """

    ids: Ids
    starts: Floats
    calendar: bool
    length: str
    kind: str

    @property
    def n_windows(self) -> int:
        return int(self.starts.shape[0])

    @property
    def words(self) -> str:
        """How time was cut, for a caption."""
        if self.length:
            return f"Windows of {self.length} ({self.kind})"
        return f"{self.n_windows} windows over {self.kind}"

    def label(self, window: int) -> str:
        """Returns the start of a window for people.

        Example:
            >>> cut_windows(np.arange(0, 3 * 86_400, 3600) + 1_700_006_400, n_rows=72, time_is_calendar=False).label(1)
            '2023-11-15 02:00'
        """
        start = float(self.starts[window])
        if not self.calendar:
            return f"{start:,.0f}"
        moment = datetime.fromtimestamp(start, UTC)
        return moment.strftime("%Y-%m-%d" if self.length.endswith(("day", "days")) else "%Y-%m-%d %H:%M")


def cut_windows(
    times: NDArray[np.int64] | None, n_rows: int, *, time_is_calendar: bool, n_positive: float = np.inf
) -> Windows:
    """Cuts rows into at most 40 windows of a round length; without a time column, into 24 of equally many rows.

    Arguments:
        times: Microseconds since 1970 if `time_is_calendar`, else whole numbers.
        n_rows: How many rows there are.
        time_is_calendar: Whether the column's type says that it holds moments.
        n_positive: Positives among the rows; windows are widened until they hold about ten each.
    """
    affordable = int(np.clip(n_positive / 10.0, 2, MOST_WINDOWS))
    if times is None:
        n_windows = max(1, min(ROW_WINDOWS, affordable, n_rows))
        ids = (np.arange(n_rows, dtype=np.int64) * n_windows // n_rows).astype(np.int32)
        return _used(ids, np.floor(np.arange(n_windows) * n_rows / n_windows), False, "", "rows in the table's order")
    per_second = 1_000_000 if time_is_calendar else _epoch_unit(times)
    if per_second is None:
        low, high = int(times.min()), int(times.max())
        n_windows = min(ROW_WINDOWS, affordable, high - low + 1)
        step = (high - low + 1) / n_windows
        ids = np.minimum(((times - low) / step).astype(np.int32), n_windows - 1)
        return _used(ids, low + step * np.arange(n_windows), False, "", "the time column's own unit")
    seconds = times // per_second
    span = int(seconds.max() - seconds.min()) + 1
    length = next((candidate for candidate in _LENGTHS_SECONDS if span / candidate <= affordable), _LENGTHS_SECONDS[-1])
    first = int(seconds.min()) // length
    ids = (seconds // length - first).astype(np.int32)
    starts = (first + np.arange(int(ids.max()) + 1)) * float(length)
    return _used(ids, starts, True, _words(length), "UTC")


def _used(ids: Ids, starts: NDArray[Any], calendar: bool, length: str, kind: str) -> Windows:
    filled = np.flatnonzero(np.bincount(ids, minlength=starts.shape[0]))
    renumber = np.zeros(starts.shape[0], dtype=np.int32)
    renumber[filled] = np.arange(filled.shape[0], dtype=np.int32)
    return Windows(renumber[ids], starts[filled].astype(np.float64), calendar, length, kind)


def _epoch_unit(times: NDArray[np.int64]) -> int | None:
    low, high = int(times.min()), int(times.max())
    return next((per_second for per_second, least, most in _EPOCH_UNITS if low >= least and high <= most), None)


def _words(seconds: int) -> str:
    for name, size in (("day", _DAY), ("hour", _HOUR), ("minute", _MINUTE)):
        if seconds % size == 0:
            n = seconds // size
            return f"{n} {name}{'s' if n > 1 else ''}"
    return f"{seconds} seconds"
