r"""Fits that several processes do together, with the same bits whoever computes what.

Rows are dealt into shards, which belong to the data and not to the cluster. A shard is the unit of arithmetic: every
partial sum is that of one shard, and a member of the team loops over its own. Partial sums are added as integers: each
is rounded to a multiple of :math:`2^{e-53}`, with :math:`2^e` above the largest of all, and integers have no order of
summation. So the same shards give the same numbers on one process, two or four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats

MOST_SHARDS = 512
"""Partial sums are below 2⁵³; as many of them fit into an integer of 64 bits."""

DEALT_ROWS = 4096
"""Rows that stay together when a log is dealt, so that a shard is read in blocks and spans the whole time."""

BLOCK_ROWS = 1 << 16
"""Rows that are added up at a time: whatever a sum needs beside the rows is as long as this and stays small."""

_BITS = 53


class Team(Protocol):
    """The processes that fit together.

    Attributes:
        rank: Which member this process is.
        size: How many there are.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def count(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the sums over all members."""
        ...

    def most(self, numbers: Floats) -> Floats:
        """Returns the largest numbers of any member."""
        ...


@final
class Alone:
    """A team of one."""

    rank, size = 0, 1

    def count(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return numbers

    def most(self, numbers: Floats) -> Floats:
        return numbers


def told(data: bytes, team: Team) -> bytes:
    """Returns to every member what the first one has to say.

    Arguments:
        data: Of the first member; that of others is not looked at.
        team: The members.

    Example:
        >>> told(b"step 7", Alone())
        b'step 7'
    """
    own = data if team.rank == 0 else b""
    length = int(team.count(np.array([len(own)]))[0])
    padded = np.frombuffer(own.ljust(-(-length // 8) * 8, b"\0"), dtype=np.int64)
    return team.count(padded).tobytes()[:length]


@final
@dataclass(frozen=True)
class Shards:
    """How a member's rows are cut into shards, and with whom it adds them up.

    Attributes:
        team: The members.
        n: Shards of all members; 1 means plain sums, as without a team.
        numbers: Which of them are this member's.
        edges: Where they begin and end among this member's rows.
        order: A number per row that tells older rows from newer ones across all shards, rising within a shard: the
            row's number in the log, or its time; zeros if no row is known to be older than another. None if only the
            order within a shard is known.

    Example:
        Three shards, added up by one process.

        >>> shards = Shards(Alone(), 3, (0, 1, 2), np.array([0, 2, 2, 5]))
        >>> values = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
        >>> sums = [[values[rows].sum()] for _, rows in shards.parts()]
        >>> round(float(shards.add(sums)[0]), 12)
        1.5
    """

    team: Team
    n: int
    numbers: tuple[int, ...]
    edges: NDArray[np.int64]
    order: NDArray[np.int64] | None = None

    @classmethod
    def whole(cls, n_rows: int) -> Shards:
        """All rows as one shard of one process."""
        return cls(Alone(), 1, (0,), np.array([0, n_rows]))

    @classmethod
    def deal(cls, n_rows: int, n: int, team: Team) -> tuple[NDArray[np.int64], Shards]:
        """Returns this member's rows of a log, shard after shard, and where each begins.

        Blocks of 4,096 rows of the log go to shards 0, 1, 2, … in turn, and shard k to member k modulo size. Nothing
        here is as long as the log.

        Arguments:
            n_rows: How many rows the log has.
            n: How many shards there are.
            team: The members.

        Example:
            >>> rows, shards = Shards.deal(10_000, 2, Alone())
            >>> shards.edges.tolist(), rows[[0, 4096, 5904]].tolist()
            ([0, 5904, 10000], [0, 8192, 4096])
        """
        if not team.size <= n <= MOST_SHARDS:
            raise InvalidInput.of(
                "n_shards", n, f"{team.size} (one per process) to {MOST_SHARDS}", "leave it out to use one per process"
            )
        numbers = tuple(range(team.rank, n, team.size))
        starts = [np.arange(number * DEALT_ROWS, n_rows, n * DEALT_ROWS) for number in numbers]
        ends = [np.minimum(first + DEALT_ROWS, n_rows) for first in starts]
        edges = np.cumsum([0, *(int((end - first).sum()) for first, end in zip(starts, ends, strict=True))])
        mine = np.empty(int(edges[-1]), np.int64)
        place = 0
        for first, end in zip(np.concatenate(starts), np.concatenate(ends), strict=True):
            mine[place : place + end - first] = np.arange(first, end)
            place += end - first
        return mine, cls(team, n, numbers, edges, mine)

    def parts(self) -> Iterator[tuple[int, slice]]:
        """Yields the number and the rows of each of this member's shards."""
        for number, first, end in zip(self.numbers, self.edges[:-1], self.edges[1:], strict=True):
            yield number, slice(int(first), int(end))

    def add_up(self, sums: Callable[[slice], Sequence[Floats | float]]) -> list[Floats]:
        """Returns the sums over all rows of all members; `sums` gives those of some rows, block after block.

        Example:
            >>> shards, values = Shards.whole(100_000), np.arange(100_000.0)
            >>> float(shards.add_up(lambda rows: [values[rows].sum()])[0])
            4999950000.0
        """
        found = []
        for _, part in self.parts():
            first, *others = range(part.start, part.stop, BLOCK_ROWS) or [part.start]
            total = list(sums(slice(first, min(first + BLOCK_ROWS, part.stop))))
            for begin in others:
                more = sums(slice(begin, min(begin + BLOCK_ROWS, part.stop)))
                total = [before + added for before, added in zip(total, more, strict=True)]
            found.append(total)
        return self.add(found)

    def add(self, sums: Sequence[Sequence[Floats | float]]) -> list[Floats]:
        """Returns the sums over all shards of all members, from a list of arrays per own shard."""
        if self.n == 1:
            return [np.asarray(array, dtype=np.float64) for array in sums[0]]
        parts = [[np.asarray(array, dtype=np.float64) for array in arrays] for arrays in sums]
        own = np.max([[np.abs(array).max(initial=0.0) for array in arrays] for arrays in parts], axis=0)
        # a comparison between processes may lose what is no number, but not what is infinite
        largest = self.team.most(np.where(np.isfinite(own), own, np.inf))
        if not np.isfinite(largest).all():
            raise InvalidInput.of("rows", "sums that are not finite", "finite sums", "look for rows of enormous weight")
        steps = [_BITS - int(np.frexp(magnitude)[1]) for magnitude in largest]
        total = np.zeros(sum(array.size for array in parts[0]), dtype=np.int64)
        for arrays in parts:
            rounded = [np.rint(np.ldexp(array, step)).ravel() for array, step in zip(arrays, steps, strict=True)]
            total += np.concatenate(rounded).astype(np.int64)
        total = self.team.count(total)
        ends = np.cumsum([array.size for array in parts[0]])
        return [
            np.ldexp(whole.astype(np.float64), -step).reshape(array.shape)
            for whole, array, step in zip(np.split(total, ends[:-1]), parts[0], steps, strict=True)
        ]

    def join(self, columns: Sequence[NDArray[Any]]) -> Floats:
        """Returns a column of all shards, one after the other, from the piece of each own shard: for short ones.

        Whole numbers are exact below 2⁵³.

        Example:
            >>> Shards(Alone(), 2, (0, 1), np.array([0, 1, 3])).join([np.array([0.5]), np.array([-1.0, 2.0])]).tolist()
            [0.5, -1.0, 2.0]
        """
        own = list(self.numbers)
        lengths = np.zeros(self.n, dtype=np.int64)
        lengths[own] = [len(column) for column in columns]
        ends = np.cumsum(self.team.count(lengths))
        # bits of a number plus those of nothing at all members that do not have it
        bits = np.zeros(int(ends[-1]), dtype=np.int64)
        for end, column in zip(ends[own], columns, strict=True):
            bits[end - len(column) : end] = np.ascontiguousarray(column, dtype=np.float64).view(np.int64)
        return self.team.count(bits).view(np.float64)

    def most(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the largest numbers (below 2⁵³) of any member."""
        return self.team.most(numbers.astype(np.float64)).astype(np.int64)

    def newest(self, n_rows: int) -> tuple[slice | NDArray[np.int64], Shards]:
        """Returns the newest rows, each shard's own share of them, and how those are cut."""
        share = -(-n_rows // self.n)
        rows = rows_between(np.maximum(self.edges[1:] - share, self.edges[:-1]), self.edges[1:])
        return rows, self.kept(rows)

    def kept(self, rows: slice | NDArray[Any]) -> Shards:
        """Returns how the rows are cut when only these (rising) ones stay."""
        if isinstance(rows, slice):
            first, end, _ = rows.indices(int(self.edges[-1]))
            edges = np.clip(self.edges, first, max(first, end)) - first
        else:
            rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
            edges = np.searchsorted(rows, self.edges)
        return replace(self, edges=edges, order=None if self.order is None else self.order[rows])


def rows_between(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Returns the rows of several stretches, as a slice if there is one.

    Example:
        >>> rows_between(np.array([0, 5]), np.array([2, 6])).tolist(), rows_between(np.array([3]), np.array([9]))
        ([0, 1, 5], slice(3, 9, None))
    """
    if len(starts) == 1:
        return slice(int(starts[0]), int(ends[0]))
    return np.concatenate([np.arange(first, end) for first, end in zip(starts, ends, strict=True)])
