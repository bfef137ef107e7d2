"""Rows that are judged by what was learned before them, and which of them share a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.core.team import Shards

LEVEL_PRECISION = 0.01
"""A block with one class alone would push its level to infinity; a normal prior of ten logits keeps it finite."""


@final
@dataclass(frozen=True)
class Cells:
    """Which rows share a value of a field after the same cut, and with it whatever happens to the value.

    Attributes:
        numbers: The cell of every row in every field, `(n, K)`: the value's id, plus the field's size for every cut
            before the row's.
        sizes: How many cells each field has.
        n_cuts: How many cuts there are.
    """

    numbers: NDArray[np.int32]
    sizes: NDArray[np.int64]
    n_cuts: int

    def of(self, rows: slice) -> Cells:
        """Returns the cells of some of the rows."""
        return replace(self, numbers=self.numbers[rows])

    @property
    def fields(self) -> NDArray[np.int64]:
        """The field of every cell, field after field."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def sums(self, field: int, amounts: Floats) -> Floats:
        """Returns the sum of the rows' amounts in every cell of a field."""
        totals = np.bincount(self.numbers[:, field], amounts, int(self.sizes[field]))
        return np.asarray(totals, dtype=np.float64)

    def by_field(self, table: Floats) -> list[Floats]:
        """Returns a table of all cells as one table per field."""
        return np.split(table, np.cumsum(self.sizes)[:-1])


@final
@dataclass(frozen=True)
class LaterRows:
    """Rows judged by what was learned before them.

    Attributes:
        offset: Logit without the contributions.
        contributions: What each part adds, `(n, K)`.
        labels: 0 or 1.
        weights: How often each row counts.
        levels: Which free level a row belongs to: one per cut and time block.
        blocks: Which time block it lies in, whatever the cut.
        cells: Which rows share a value, where the parts are fields; None where they are not.
        shards: How the rows are cut and with whom they are added up; all of them at once if not given.
    """

    offset: Floats
    contributions: Floats
    labels: Floats
    weights: Floats
    levels: NDArray[np.int64]
    blocks: NDArray[np.int64]
    cells: Cells | None = None
    shards: Shards | None = None

    @property
    def in_shards(self) -> Shards:
        return self.shards or Shards.whole(self.offset.shape[0])

    def part(self, rows: slice) -> LaterRows:
        """Returns some of the rows, without their shards."""
        floats = self.offset[rows], self.contributions[rows], self.labels[rows], self.weights[rows]
        cells = None if self.cells is None else self.cells.of(rows)
        return LaterRows(*floats, self.levels[rows], self.blocks[rows], cells)

    def add(self, sums: Callable[[LaterRows], list[Floats | float]]) -> list[Floats]:
        """Returns what the rows of all shards sum up to."""
        shards = self.in_shards
        return shards.add([sums(self.part(rows)) for _, rows in shards.parts()])

    def n_groups(self) -> tuple[int, int]:
        """Returns the number of levels and of blocks, among all shards."""
        last = np.array([self.levels.max(initial=-1), self.blocks.max(initial=-1)])
        n_levels, n_blocks = self.in_shards.most(last) + 1
        return int(n_levels), int(n_blocks)
