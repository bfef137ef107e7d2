"""How many rows of the fit every value of a field had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.team import BLOCK_ROWS, Team

Counts = tuple[NDArray[np.int64], ...]
"""Per field, the rows that each id had; empty where a model does not know."""


def count_values(features: Ids, sizes: Sequence[int], before: Counts = (), team: Team | None = None) -> Counts:
    """Returns the rows of every id, added to those that were there before.

    Arguments:
        features: Field ids `(n, F)`.
        sizes: How many ids each field has.
        before: Counts of earlier rows; a field may have grown since.
        team: Who counts together, each its own rows.

    Example:
        >>> features = np.array([[1], [2], [1], [0]], dtype=np.int32)
        >>> counts = count_values(features, [3])
        >>> [field.tolist() for field in counts], [field.tolist() for field in count_values(features + 1, [5], counts)]
        ([[1, 2, 1]], [[1, 3, 3, 1, 0]])
    """
    found = [np.zeros(size, np.int64) for size in sizes]
    # by blocks: counting turns ids into numbers of eight bytes
    for first in range(0, features.shape[0], BLOCK_ROWS):
        block = np.asarray(features[first : first + BLOCK_ROWS])
        for counts, ids in zip(found, block.T, strict=True):
            counts += np.bincount(ids, minlength=counts.size)
    if team is not None:
        found = [team.count(counts) for counts in found]
    for counts, earlier in zip(found, before, strict=bool(before)):
        counts[: earlier.size] += earlier
    return tuple(found)


def times_seen(counts: Counts, features: Ids) -> list[NDArray[np.int64]]:
    """Returns per field how many rows of the fit had each row's value; an unseen value had none.

    Arguments:
        counts: The model's counts.
        features: Field ids `(n, F)`.
    """
    return [np.where(ids > 0, rows[ids], 0) for rows, ids in zip(counts, features.T, strict=True)] if counts else []
