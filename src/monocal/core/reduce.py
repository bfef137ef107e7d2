r"""How processes add up what each has of the rows, with the same bits whoever has which.

Rows are cut into parts, which belong to the data and not to the cluster. A part is the unit of arithmetic: every
partial sum is that of one part, and a member loops over its own. Partial sums are added as integers: each is rounded
to a multiple of :math:`2^{e-53}`, with :math:`2^e` above the largest of all, and integers have no order of summation.
So the same parts give the same numbers on one process, two or four.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats

MOST_PARTS = 512
"""Partial sums are below 2⁵³; as many of them fit into an integer of 64 bits."""

DEALT_ROWS = 4096
"""Rows that stay together when a log is cut, so that a part is read in blocks and spans the whole time."""

BLOCK_ROWS = 1 << 16
"""Rows that are added up at a time: whatever a sum needs beside the rows is as long as this and stays small."""

_BITS = 53

Keys = NDArray[np.int64]
_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Reducer(Protocol):
    """The processes that fit together: all that an algorithm ever asks of them.

    Attributes:
        rank: Which member this process is.
        size: How many there are.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def all_sum(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the sums over all members."""
        ...

    def all_max(self, numbers: Floats) -> Floats:
        """Returns the largest numbers of any member."""
        ...


@final
class Local:
    """This process alone."""

    rank, size = 0, 1

    def all_sum(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return numbers

    def all_max(self, numbers: Floats) -> Floats:
        return numbers


LOCAL = Local()


def broadcast(arrays: dict[str, NDArray[Any]], reducer: Reducer) -> dict[str, NDArray[Any]]:
    """Returns the first member's arrays to every member.

    Arguments:
        arrays: Of the first member; those of others are not looked at.
        reducer: The members.

    Example:
        >>> broadcast({"step": np.array([7])}, LOCAL)
        {'step': array([7])}
    """
    own = io.BytesIO()
    if reducer.rank == 0:
        np.savez(own, **arrays)  # type: ignore[arg-type]
    length = int(reducer.all_sum(np.array([own.tell()]))[0])
    padded = np.frombuffer(own.getvalue().ljust(-(-length // 8) * 8, b"\0"), dtype=np.int64)
    data = reducer.all_sum(padded).tobytes()[:length]
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


@final
@dataclass(frozen=True)
class Partition:
    """How rows are cut into parts, which of them are this member's, and with whom they are added up.

    Attributes:
        reducer: The members.
        n: Parts of all members; 1 means plain sums.
        numbers: Which of them are this member's.
        edges: Where they begin and end among this member's rows.
        order: A number per row that tells older rows from newer ones across all parts, rising within a part: the row's
            number in the log, or its time; zeros if no row is known to be older than another. None if only the order
            within a part is known.

    Example:
        Three parts, added up by one process.

        >>> partition = Partition(LOCAL, 3, (0, 1, 2), np.array([0, 2, 2, 5]))
        >>> values = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
        >>> sums = [[values[part].sum()] for part in partition.parts]
        >>> round(float(partition.add(sums)[0]), 12)
        1.5
    """

    reducer: Reducer
    n: int
    numbers: tuple[int, ...]
    edges: NDArray[np.int64]
    order: NDArray[np.int64] | None = None

    @classmethod
    def whole(cls, n_rows: int) -> Partition:
        """All rows as one part of one process."""
        return cls(LOCAL, 1, (0,), np.array([0, n_rows]))

    @classmethod
    def of_log(cls, n_rows: int, n: int, reducer: Reducer) -> tuple[NDArray[np.int64], Partition]:
        """Returns this member's rows of a log, part after part, and where each begins.

        Blocks of 4,096 rows of the log go to parts 0, 1, 2, … in turn, and part k to member k modulo size. Nothing
        here is as long as the log.

        Arguments:
            n_rows: How many rows the log has.
            n: How many parts there are.
            reducer: The members.

        Example:
            >>> rows, partition = Partition.of_log(10_000, 2, LOCAL)
            >>> partition.edges.tolist(), rows[[0, 4096, 5904]].tolist()
            ([0, 5904, 10000], [0, 8192, 4096])
        """
        if not reducer.size <= n <= MOST_PARTS:
            expected = f"{reducer.size} (one per process) to {MOST_PARTS}"
            raise InvalidInput.of("n_shards", n, expected, "leave it out to use one per process")
        numbers = tuple(range(reducer.rank, n, reducer.size))
        starts = [np.arange(number * DEALT_ROWS, n_rows, n * DEALT_ROWS) for number in numbers]
        ends = [np.minimum(first + DEALT_ROWS, n_rows) for first in starts]
        edges = np.cumsum([0, *(int((end - first).sum()) for first, end in zip(starts, ends, strict=True))])
        own = np.empty(int(edges[-1]), np.int64)
        place = 0
        for first, end in zip(np.concatenate(starts), np.concatenate(ends), strict=True):
            own[place : place + end - first] = np.arange(first, end)
            place += end - first
        return own, cls(reducer, n, numbers, edges, own)

    @property
    def parts(self) -> list[slice]:
        """The rows of each of this member's parts."""
        return [slice(*ends) for ends in pairwise(self.edges.tolist())]

    def add(self, sums: Sequence[Sequence[Floats | float]]) -> list[Floats]:
        """Returns the sums over all parts of all members, from a list of arrays per own part."""
        if self.n == 1:
            return [np.asarray(array, dtype=np.float64) for array in sums[0]]
        parts = [[np.asarray(array, dtype=np.float64) for array in arrays] for arrays in sums]
        own = np.max([[np.abs(array).max(initial=0.0) for array in arrays] for arrays in parts], axis=0)
        # a comparison between processes may lose what is no number, but not what is infinite
        largest = self.reducer.all_max(np.where(np.isfinite(own), own, np.inf))
        if not np.isfinite(largest).all():
            raise InvalidInput.of("rows", "sums that are not finite", "finite sums", "look for rows of enormous weight")
        steps = [_BITS - int(np.frexp(magnitude)[1]) for magnitude in largest]
        total = np.zeros(sum(array.size for array in parts[0]), dtype=np.int64)
        for arrays in parts:
            rounded = [np.rint(np.ldexp(array, step)).ravel() for array, step in zip(arrays, steps, strict=True)]
            total += np.concatenate(rounded).astype(np.int64)
        total = self.reducer.all_sum(total)
        ends = np.cumsum([array.size for array in parts[0]])
        return [
            np.ldexp(whole.astype(np.float64), -step).reshape(array.shape)
            for whole, array, step in zip(np.split(total, ends[:-1]), parts[0], steps, strict=True)
        ]

    def max(self, numbers: NDArray[Any]) -> Floats:
        """Returns the largest numbers of any member; whole ones are exact below 2⁵³."""
        return self.reducer.all_max(np.asarray(numbers, dtype=np.float64))

    def n_rows(self, n_own: int) -> int:
        """Returns how many rows all members have."""
        return int(self.reducer.all_sum(np.array([n_own]))[0])

    def gather(self, columns: Sequence[NDArray[Any]]) -> Floats:
        """Returns a column of all parts, one after the other, from the piece of each own part: for short ones.

        Whole numbers are exact below 2⁵³.

        Example:
            >>> partition = Partition(LOCAL, 2, (0, 1), np.array([0, 1, 3]))
            >>> partition.gather([np.array([0.5]), np.array([-1.0, 2.0])]).tolist()
            [0.5, -1.0, 2.0]
        """
        own = list(self.numbers)
        lengths = np.zeros(self.n, dtype=np.int64)
        lengths[own] = [len(column) for column in columns]
        ends = np.cumsum(self.reducer.all_sum(lengths))
        # bits of a number plus those of nothing at all members that do not have it
        bits = np.zeros(int(ends[-1]), dtype=np.int64)
        for end, column in zip(ends[own], columns, strict=True):
            bits[end - len(column) : end] = np.ascontiguousarray(column, dtype=np.float64).view(np.int64)
        return self.reducer.all_sum(bits).view(np.float64)

    def newest(self, n_rows: int) -> slice | NDArray[np.int64]:
        """Returns the newest rows, each part's own share of them."""
        share = -(-n_rows // self.n)
        return rows_between(np.maximum(self.edges[1:] - share, self.edges[:-1]), self.edges[1:])

    def take(self, rows: slice | NDArray[Any]) -> Partition:
        """Returns how the rows are cut when only these (rising) ones stay."""
        if isinstance(rows, slice):
            first, end, _ = rows.indices(int(self.edges[-1]))
            edges = np.clip(self.edges, first, max(first, end)) - first
        else:
            rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
            edges = np.searchsorted(rows, self.edges)
        return replace(self, edges=edges, order=None if self.order is None else self.order[rows])

    def keys_at(self, masses: Floats, keys: Sequence[Keys], weights: Sequence[Floats] | None) -> Keys:
        """Returns, for every wanted mass, the smallest key below which the rows of all parts weigh at least so much.

        By bisection, one round per bit of a key, so that nobody sees another member's rows. If all rows together weigh
        less, the answer is the largest integer.

        Arguments:
            masses: How much weight is wanted.
            keys: Of the rows of each own part, rising.
            weights: Of the same rows; None means 1 each.

        Example:
            >>> partition = Partition(LOCAL, 2, (0, 1), np.array([0, 2, 4]))
            >>> partition.keys_at(np.array([2.0, 3.0]), [np.array([10, 30]), np.array([20, 40])], None).tolist()
            [21, 31]
        """
        before = None if weights is None else [np.concatenate([[0.0], np.cumsum(w)]) for w in weights]
        low, high = np.full(len(masses), _LOWEST), np.full(len(masses), _HIGHEST)
        while (low < high).any():
            middle = (low & high) + ((low ^ high) >> 1)
            places = [np.searchsorted(part_keys, middle) for part_keys in keys]
            if before is None:
                below = [[place.astype(np.float64)] for place in places]
            else:
                below = [[mass[place]] for place, mass in zip(places, before, strict=True)]
            enough = self.add(below)[0] >= masses
            high, low = np.where(enough, middle, high), np.where(enough | (low >= high), low, middle + 1)
        return high

    def quantiles(self, values: Floats, shares: Floats, weights: Floats | None = None) -> Floats:
        """Returns quantiles over all parts, between neighbours as `numpy.quantile` has them when weights are 1.

        Arguments:
            values: One per row of this member.
            shares: In [0, 1].
            weights: How often each value counts; None means once.

        Example:
            >>> partition = Partition(LOCAL, 2, (0, 1), np.array([0, 2, 5]))
            >>> partition.quantiles(np.array([3.0, -1.0, 7.0, 0.5, 2.0]), np.array([0.0, 0.5, 0.9]))
            array([-1. ,  2. ,  5.4])
        """
        keys, masses = [], []
        for part in self.parts:
            bits = _ordered_bits(values[part])
            if weights is None:
                bits.sort()
                keys.append(bits)
            else:
                rising = np.argsort(bits, kind="stable")
                keys.append(bits[rising])
                masses.append(weights[part][rising])
        if weights is None:
            total = float(self.n_rows(values.shape[0]))
        else:
            total = float(self.add([[float(mass.sum())] for mass in masses])[0])
        places = shares * max(total - 1.0, 0.0)
        wanted = np.minimum(np.concatenate([np.floor(places), np.ceil(places)]) + 1.0, total)
        # below the key after a value lie the value itself and all smaller ones
        found = _numbers(self.keys_at(wanted * (1.0 - 1e-15), keys, masses or None) - 1)
        below, above = np.split(found, 2)
        result: Floats = below + (places - np.floor(places)) * (above - below)
        return result


def pieces_of(rows: slice, n_rows: int) -> list[slice]:
    """Cuts rows into pieces of so many, the last of which may be shorter.

    Example:
        >>> pieces_of(slice(3, 8), 3)
        [slice(3, 6, None), slice(6, 8, None)]
    """
    return [slice(first, min(first + n_rows, rows.stop)) for first in range(rows.start, rows.stop, n_rows)]


def rows_between(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Returns the rows of several stretches, as a slice if there is one.

    Example:
        >>> rows_between(np.array([0, 5]), np.array([2, 6])).tolist(), rows_between(np.array([3]), np.array([9]))
        ([0, 1, 5], slice(3, 9, None))
    """
    if len(starts) == 1:
        return slice(int(starts[0]), int(ends[0]))
    return np.concatenate([np.arange(first, end) for first, end in zip(starts, ends, strict=True)])


def _ordered_bits(values: Floats) -> Keys:
    """Returns integers that rise with the numbers."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ _HIGHEST, bits)


def _numbers(keys: Keys) -> Floats:
    return np.where(keys < 0, keys ^ _HIGHEST, keys).view(np.float64)
