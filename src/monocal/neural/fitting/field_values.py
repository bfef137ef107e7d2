"""Which values of which fields get a vector of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monocal.core.numeric_ids import n_numeric_ids
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.core.team import Shards

_BLOCK_ROWS = 1 << 16


def field_sizes(features: Ids, numeric_knots: Sequence[int] | None = None) -> list[int]:
    """Returns how many ids each field has, id 0 included, from the largest id present or the knots of its numbers."""
    largest = np.zeros(features.shape[1], dtype=np.int64)
    for start in range(0, features.shape[0], _BLOCK_ROWS):
        largest = np.maximum(largest, np.asarray(features[start : start + _BLOCK_ROWS]).max(axis=0))
    knots = numeric_knots or (0,) * len(largest)
    return [n_numeric_ids(n) if n else int(last_id) + 1 for n, last_id in zip(knots, largest, strict=True)]


@dataclass(frozen=True)
class ValueSlots:
    """Which row of an embedding table stands for which field value.

    Attributes:
        slots: For every id, field after field, its id in the table; 0 for rare values.
        sizes: How many ids each field has in the table.
    """

    slots: NDArray[np.int64]
    sizes: list[int]


def slots_of_common_values(
    features: Ids,
    sizes: Sequence[int],
    min_count: int,
    weights: Floats | None = None,
    numeric_knots: Sequence[int] | None = None,
    shards: Shards | None = None,
) -> ValueSlots:
    """Gives every value with at least `min_count` rows a slot; the others share slot 0 with unseen values.

    All ids of a field of numbers have slots: what stands behind them are the rows around their knots.

    Arguments:
        features: Field ids.
        sizes: How many ids each field has.
        min_count: Rows that a value needs.
        weights: How often each row counts.
        numeric_knots: Knots per field of numbers, 0 for categories.
        shards: How the rows are cut and with whom they are counted; all of them at once if not given.

    Example:
        >>> features = np.array([[1], [3], [3]], dtype=np.int32)
        >>> found = slots_of_common_values(features, [4], min_count=2)
        >>> found.slots.tolist(), found.sizes
        ([0, 0, 0, 1], [2])
    """
    shards = shards or Shards.whole(features.shape[0])
    sums = []
    for _, part in shards.parts():
        counts = [np.zeros(size) for size in sizes]
        for start in range(part.start, part.stop, _BLOCK_ROWS):
            rows = slice(start, min(start + _BLOCK_ROWS, part.stop))
            block = np.asarray(features[rows])
            masses = None if weights is None else weights[rows]
            for field, (count, size) in enumerate(zip(counts, sizes, strict=True)):
                count += np.bincount(block[:, field], masses, minlength=size)
        sums.append(counts)
    slots, found = [], []
    for count, n_knots in zip(shards.add(sums), numeric_knots or (0,) * len(sizes), strict=True):
        has_one = count >= (0 if n_knots else max(min_count, 1))
        has_one[0] = False
        slots.append(np.where(has_one, np.cumsum(has_one), 0))
        found.append(int(has_one.sum()) + 1)
    return ValueSlots(np.concatenate(slots), found)
