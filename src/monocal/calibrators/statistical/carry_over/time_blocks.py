"""Stretches of time that rows share: whole days where there are enough of them, equal numbers of rows otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Samples
from monocal.core.spaces import Floats

N_BLOCKS = 20
FEWEST_PERIODS = 10
"""With fewer natural periods than this, blocks are equal shares of the rows."""

MOST_PERIODS = 1000
"""Numbers that are no clock count as periods if there are at most this many: weeks, seasons, hours as numbers."""

_DAYS_BY_MAGNITUDE = ((1e8, 1e11, 86_400), (1e11, 1e14, 86_400_000), (1e14, 1e17, 86_400_000_000))
"""Moments since 1970 in seconds, milliseconds and microseconds are told apart by their size; a wrong reading would
only move the edges of blocks."""


@final
@dataclass(frozen=True)
class TimeBlocks:
    """Where blocks of rows in time order begin.

    Attributes:
        edges: First row of every block, then the number of rows.
        shares: Share of the weight that lies before each edge, 0 to 1.
        one_moment: Times were given and are all the same: no row is later than another.
    """

    edges: NDArray[np.int64]
    shares: Floats
    one_moment: bool = False

    @classmethod
    def of(cls, samples: Samples) -> TimeBlocks:
        """Cuts rows into at most twenty blocks of about equal weight that do not split a day.

        Example:
            Twelve days of a hundred rows each make twelve blocks.

            >>> days = np.repeat(np.arange(12), 100) * 86_400 + 1_767_225_600
            >>> blocks = TimeBlocks.of(Samples(np.zeros(1200), times=days))
            >>> blocks.edges[:4].tolist(), blocks.n_blocks
            ([0, 100, 200, 300], 12)
        """
        n_rows = samples.n_rows
        mass = np.concatenate([[0.0], np.cumsum(samples.weights_or_ones)])
        mass /= mass[-1]
        edges = _period_edges(samples.times, mass)
        if edges is None:
            edges = np.searchsorted(mass, np.linspace(0.0, 1.0, N_BLOCKS + 1) - 1e-12)
            edges[-1] = n_rows
            edges = np.unique(edges)
        times = samples.times
        one_moment = times is not None and n_rows > 0 and bool(times[0] == times[-1])
        return cls(edges.astype(np.int64), mass[edges], one_moment)

    @property
    def n_blocks(self) -> int:
        return int(self.edges.shape[0]) - 1

    def nearest_edge(self, share: float) -> int:
        """Returns the number of the edge that comes nearest to a share of the weight, not the first or the last."""
        inner = self.shares[1:-1]
        return 1 + int(np.argmin(np.abs(inner - share))) if inner.size else 0

    def edge_after(self, share: float) -> int:
        """Returns the number of the first edge with at least this share before it, but leaves one block."""
        return min(int(np.searchsorted(self.shares, share - 1e-9)), self.n_blocks - 1)

    def block_of_rows(self, first_row: int) -> NDArray[np.int64]:
        """Returns the block of every row from `first_row` on."""
        numbers = np.repeat(np.arange(self.n_blocks), np.diff(self.edges))
        return numbers[first_row:]


def _period_edges(times: NDArray[Any] | None, mass: Floats) -> NDArray[np.int64] | None:
    if times is None or times.shape[0] == 0:
        return None
    periods = _periods(times)
    if periods is None:
        return None
    begins = np.concatenate([[0], np.flatnonzero(periods[1:] != periods[:-1]) + 1, [periods.shape[0]]])
    if begins.shape[0] - 1 < FEWEST_PERIODS:
        return None
    middles = 0.5 * (mass[begins[:-1]] + mass[begins[1:]])
    block = np.minimum((middles * N_BLOCKS).astype(np.int64), N_BLOCKS - 1)
    new = np.concatenate([[True], block[1:] != block[:-1]])
    edges: NDArray[np.int64] = np.append(begins[:-1][new], periods.shape[0])
    return edges if edges.shape[0] - 1 >= FEWEST_PERIODS else None


def clock_hours(times: NDArray[Any] | None) -> NDArray[np.int64] | None:
    """Returns the hour, counted from 1970, in which every row lies; None if the times are no clock.

    Example:
        >>> clock_hours(np.array(["1970-01-01T06:59", "1970-01-02T18:00"], dtype="datetime64[m]")).tolist()
        [6, 42]
    """
    if times is None or times.shape[0] == 0:
        return None
    if times.dtype.kind == "M":
        return times.astype("datetime64[h]").astype(np.int64)
    day = _day_length(times) if times.dtype.kind in "iuf" else None
    return None if day is None else np.asarray(times // (day // 24), dtype=np.int64)


def follows_the_hour(ids: NDArray[Any], hours: NDArray[np.int64]) -> bool:
    """Returns whether a field changes on the hour only, and more than twice a day: an hour, or a part of the day.

    Such values come back the next day, which a date or a batch does not, even where the log is too short to show it.

    Example:
        >>> hours = np.repeat(np.arange(30), 5)
        >>> follows_the_hour(hours % 24 + 1, hours), follows_the_hour(hours // 24 + 1, hours)
        (True, False)
    """
    new_hour = np.concatenate([[True], hours[1:] != hours[:-1]])
    changes = ids[1:] != ids[:-1]
    days = (hours[-1] - hours[0] + 1) / 24.0
    return bool(not np.any(changes & ~new_hour[1:]) and np.count_nonzero(changes) > 2.0 * max(days, 1.0))


def _day_length(times: NDArray[Any]) -> int | None:
    size = float(np.abs(times[-1]))
    return next((day for low, high, day in _DAYS_BY_MAGNITUDE if low <= size < high), None)


def _periods(times: NDArray[Any]) -> NDArray[np.int64] | None:
    """Returns the number of every row's day, week or whatever the times count; None if they count nothing."""
    if times.dtype.kind == "M":
        return times.astype("datetime64[D]").astype(np.int64)
    if times.dtype.kind not in "iuf":
        return None
    day = _day_length(times)
    if day is not None:
        return np.asarray(times // day, dtype=np.int64)
    distinct = np.concatenate([[0], np.cumsum(times[1:] != times[:-1])])
    return distinct if distinct[-1] < MOST_PERIODS else None
