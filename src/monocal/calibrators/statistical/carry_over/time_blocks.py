"""Stretches of time that rows share: whole days where there are enough of them, equal numbers of rows otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.carry_over.periods import N_BLOCKS, chosen_periods, periods_of
from monocal.calibrators.statistical.carry_over.shard_blocks import blocks_of_shards
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.core.team import rows_between


@final
@dataclass(frozen=True)
class TimeBlocks:
    """Where blocks of rows in time order begin.

    Attributes:
        edges: Per shard, the first row of every block and the end of the last one; without a team there is one shard.
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
            >>> blocks.edges[0, :4].tolist(), blocks.n_blocks
            ([0, 100, 200, 300], 12)
        """
        if samples.shards is not None:
            return cls(*blocks_of_shards(samples, samples.shards))
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


def _period_edges(times: NDArray[Any] | None, mass: Floats) -> NDArray[np.int64] | None:
    if times is None or times.shape[0] == 0:
        return None
    periods = periods_of(times)
    if periods is None:
        return None
    begins = np.concatenate([[0], np.flatnonzero(periods[1:] != periods[:-1]) + 1, [periods.shape[0]]])
    chosen = chosen_periods(mass[begins])
    return None if chosen is None else np.append(begins[chosen], periods.shape[0])
