"""Stretches of time that rows share: whole days where there are enough of them, equal numbers of rows otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import Dataset
from monocal.core.reduce import Partition, rows_between
from monocal.core.scores import Floats

N_BLOCKS = 20
FEWEST_PERIODS = 10
"""With fewer natural periods than this, blocks are equal shares of the rows."""

MOST_PERIODS = 1000
"""Numbers that are no clock count as periods if there are at most this many: weeks, seasons, hours as numbers."""

MOST_DAYS = 100_000
"""A clock that spans more is none."""

_DAYS_BY_MAGNITUDE = ((1e8, 1e11, 86_400), (1e11, 1e14, 86_400_000), (1e14, 1e17, 86_400_000_000))
"""Moments since 1970 in seconds, milliseconds and microseconds are recognised by their size; a wrong reading would
only move the edges of blocks."""

Edges = NDArray[np.int64]


@final
@dataclass(frozen=True)
class TimeBlocks:
    """Where blocks of rows in time order begin.

    Attributes:
        edges: Per own part of the rows, the first row of every block and the end of the last one; rows that lie here
            alone are one part.
        shares: Share of the weight that lies before each edge, 0 to 1.
        one_moment: Times were given and are all the same: no row is later than another.
    """

    edges: Edges
    shares: Floats
    one_moment: bool = False

    @classmethod
    def of(cls, data: Dataset) -> TimeBlocks:
        """Cuts rows into at most twenty blocks of about equal weight that do not split a day.

        Rows in parts are cut at the same moments everywhere: whole periods by the weight that all parts have in each,
        or moments that cut the weight of all parts into equal shares.

        Example:
            Twelve days of a hundred rows each make twelve blocks.

            >>> days = np.repeat(np.arange(12), 100) * 86_400 + 1_767_225_600
            >>> blocks = TimeBlocks.of(Dataset(np.zeros(1200), times=days))
            >>> blocks.edges[0, :4].tolist(), blocks.n_blocks
            ([0, 100, 200, 300], 12)
        """
        if data.partition is not None:
            return _blocks_of_parts(data, data.partition)
        mass = np.concatenate([[0.0], np.cumsum(data.weights)])
        mass /= mass[-1]
        edges = _period_edges(data.times, mass)
        if edges is None:
            edges = np.searchsorted(mass, np.linspace(0.0, 1.0, N_BLOCKS + 1) - 1e-12)
            edges[-1] = data.n_rows
            edges = np.unique(edges)
        times = data.times
        one_moment = times is not None and data.n_rows > 0 and bool(times[0] == times[-1])
        return cls(edges.astype(np.int64)[None], mass[edges], one_moment)

    @property
    def n_blocks(self) -> int:
        return int(self.edges.shape[1]) - 1

    def nearest_edge(self, share: float) -> int:
        """Returns the number of the edge that comes nearest to a share of the weight, not the first or the last."""
        inner = self.shares[1:-1]
        return 1 + int(np.argmin(np.abs(inner - share))) if inner.size else 0

    def edge_after(self, share: float) -> int:
        """Returns the number of the first edge with at least this share before it, but leaves one block."""
        return min(int(np.searchsorted(self.shares, share - 1e-9)), self.n_blocks - 1)

    def rows(self, first: int, end: int) -> slice | NDArray[np.int64]:
        """Returns the rows between two edges."""
        return rows_between(self.edges[:, first], self.edges[:, end])

    def block_of_rows(self, first: int) -> NDArray[np.int32]:
        """Returns the block of every row from the edge `first` on."""
        numbers = np.arange(first, self.n_blocks, dtype=np.int32)
        return np.concatenate([np.repeat(numbers, np.diff(edges[first:])) for edges in self.edges])


def _period_edges(times: NDArray[Any] | None, mass: Floats) -> Edges | None:
    if times is None or times.shape[0] == 0:
        return None
    periods = _periods_of(times)
    if periods is None:
        return None
    begins = np.concatenate([[0], np.flatnonzero(periods[1:] != periods[:-1]) + 1, [periods.shape[0]]])
    chosen = _chosen_periods(mass[begins])
    return None if chosen is None else np.append(begins[chosen], periods.shape[0])


def _chosen_periods(mass: Floats) -> Edges | None:
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


def _periods_of(times: NDArray[Any]) -> Edges | None:
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


# Rows in parts


def _blocks_of_parts(data: Dataset, partition: Partition) -> TimeBlocks:
    assert partition.order is not None
    parts = partition.parts
    weights = None if data.w is None else [data.w[part] for part in parts]
    total = float(data.sum(lambda block: [float(block.w.sum())])[0])
    periods, n_periods, one_moment = _periods_of_parts(data)
    edges = None
    if periods is not None:
        edges = _period_edges_of_parts([periods[part] for part in parts], n_periods, weights, total, partition)
    if edges is None:
        order = [partition.order[part] for part in parts]
        wanted = (np.arange(1, N_BLOCKS) / N_BLOCKS - 1e-12) * total
        moments = np.unique(partition.keys_at(wanted, order, weights))
        edges = [np.concatenate([[0], np.searchsorted(keys, moments), [len(keys)]]) for keys in order]
    if weights is None:
        before = [at.astype(np.float64) for at in edges]
    else:
        before = [np.concatenate([[0.0], np.cumsum(w)])[at] for w, at in zip(weights, edges, strict=True)]
    shares = partition.add([[mass] for mass in before])[0] / total
    # moments that no row lies between, or none after
    new = np.concatenate([[True], np.diff(shares) > 0.0])
    return TimeBlocks((np.array(edges) + partition.edges[:-1, None])[:, new], shares[new], one_moment)


def _periods_of_parts(data: Dataset) -> tuple[Edges | None, int, bool]:
    """Returns every row's period counted from the first one, how many there are, and whether all is one moment."""
    times = data.times
    if times is None:
        return None, 0, False
    # a member without rows knows neither end
    ends = np.array([-float(times.min()), float(times.max())]) if times.size else np.full(2, -np.inf)
    first, last = (int(end) for end in data.cut.max(ends) * [-1.0, 1.0])
    day = day_length(last)
    unit, most = (1, MOST_PERIODS) if day is None else (day, MOST_DAYS)
    n_periods = last // unit - first // unit + 1
    return (times // unit - first // unit if n_periods <= most else None), n_periods, first == last


def _period_edges_of_parts(
    periods: list[Edges], n_periods: int, weights: list[Floats] | None, total: float, partition: Partition
) -> list[Edges] | None:
    of_rows = [None] * len(periods) if weights is None else weights
    sums = [[np.bincount(days, w, n_periods).astype(np.float64)] for days, w in zip(periods, of_rows, strict=True)]
    mass = partition.add(sums)[0]
    present = np.flatnonzero(mass)
    chosen = _chosen_periods(np.concatenate([[0.0], np.cumsum(mass[present])]) / total)
    if chosen is None:
        return None
    return [np.append(np.searchsorted(days, present[chosen]), len(days)) for days in periods]


# Clocks


def day_length(time: float) -> int | None:
    """Returns how long a day is in the unit of a time, recognised by its size; None if it is no clock.

    Example:
        >>> day_length(1_767_225_600), day_length(1_767_225_600_000), day_length(40)
        (86400, 86400000, None)
    """
    for low, high, day in _DAYS_BY_MAGNITUDE:
        if low <= abs(time) < high:
            return day
    return None


def clock_hours(data: Dataset) -> NDArray[np.int64] | None:
    """Returns the hour, counted from 1970, in which every row lies; None if the times are no clock.

    Example:
        >>> times = np.array(["1970-01-01T06:59", "1970-01-02T18:00"], dtype="datetime64[m]")
        >>> clock_hours(Dataset(np.zeros(2), times=times)).tolist()
        [6, 42]
    """
    times = data.times
    if times is None or (times.shape[0] == 0 and data.partition is None):
        return None
    if times.dtype.kind == "M":
        return times.astype("datetime64[h]").astype(np.int64)
    if times.dtype.kind not in "iuf":
        return None
    newest = float(times[-1]) if data.partition is None else float(data.cut.max(times.max(initial=0, keepdims=True))[0])
    day = day_length(newest)
    return None if day is None else np.asarray(times // (day // 24), dtype=np.int64)


def follows_the_hour(data: Dataset, ids: NDArray[Any], hours: NDArray[np.int64]) -> bool:
    """Returns whether a field changes on the hour only, and more than twice a day: an hour, or a part of the day.

    Such values recur the next day, which a date or a batch does not, even where the log is too short to show it.

    Arguments:
        data: The rows.
        ids: The field's, one per row.
        hours: Of the same rows, rising.

    Example:
        >>> hours, rows = np.repeat(np.arange(30), 5), Dataset(np.zeros(150))
        >>> follows_the_hour(rows, hours % 24 + 1, hours), follows_the_hour(rows, hours // 24 + 1, hours)
        (True, False)
    """
    found = np.array([0.0, 0.0, -np.inf, -np.inf])
    for part in data.cut.parts:
        hour, values = hours[part], ids[part]
        if hour.size:
            changes = values[1:] != values[:-1]
            within = float(np.any(changes & (hour[1:] == hour[:-1])))
            here = [within, float(np.count_nonzero(changes)), -float(hour[0]), float(hour[-1])]
            found = np.maximum(found, here)
    any_within, n_changes, first, last = data.cut.max(found)
    return bool(not any_within and n_changes > 2.0 * max((last + first + 1.0) / 24.0, 1.0))
