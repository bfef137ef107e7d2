"""Blocks of rows and redrawn labels on a cluster, from which intervals and noise floors are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa

from monocal.metrics.base import Blocks, Rows
from monocal.metrics.resample import MOST_BLOCKS
from monocal.spark.judged_rows import Judged
from monocal.tables.value_index import hash_text

NO_INTERVAL = f"too many numbers for each of {MOST_BLOCKS} blocks of rows"
"""Why a metric that is not a few sums has no interval on a cluster."""


@final
@dataclass(frozen=True)
class Resampling:
    """How rows are resampled and labels redrawn.

    Attributes:
        n_bootstrap: Replicates behind an interval.
        n_floor: Redraws behind a floor.
        seed: Seed of both.
        group: The column whose values are resampled; None resamples rows.
    """

    n_bootstrap: int
    n_floor: int
    seed: int
    group: str | None

    def blocks(self, judged: Judged) -> Blocks:
        """Returns the block of each row: that of its group, or a random one.

        Forecasts of the same rows get the same blocks. The random ones depend on the partition and the place in it.
        """
        if self.group is not None:
            column = judged.rows.fields[self.group]
            of_value: Blocks = blocks_of_groups(column.known_values.cast(pa.string()))[column.ids]
            return of_value
        return self._random(judged, 3).integers(0, MOST_BLOCKS, len(judged.labels), dtype=np.int32)

    def draws(self, judged: Judged) -> Iterator[Rows]:
        """Yields the rows with label 1 in each redraw."""
        random = self._random(judged, 2)
        for _ in range(self.n_floor):
            yield np.flatnonzero(random.random(len(judged.labels)) < judged.probabilities)

    def _random(self, judged: Judged, purpose: int) -> np.random.Generator:
        from pyspark import TaskContext

        return np.random.default_rng([self.seed, purpose, TaskContext.get().partitionId(), judged.first_row])


def blocks_of_groups(texts: pa.Array | pa.ChunkedArray) -> Blocks:
    """Returns the block of each group, from a hash of its text: the same in every task.

    Example:
        >>> blocks = blocks_of_groups(pa.array(["anna", "ben", "anna"]))
        >>> bool(blocks[0] == blocks[2]), bool((blocks < 512).all())
        (True, True)
    """
    return (hash_text(texts)[0] % np.uint64(MOST_BLOCKS)).astype(np.int32)
