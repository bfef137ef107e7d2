"""How many rows of the fit every value of a field had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids

Counts = tuple[NDArray[np.int64], ...]
"""Per field, the rows that each id had; empty where a model does not know."""


def count_values(features: Ids, sizes: Sequence[int], before: Counts = ()) -> Counts:
    """Returns the rows of every id, added to those that were there before.

    Arguments:
        features: Field ids `(n, F)`.
        sizes: How many ids each field has.
        before: Counts of earlier rows; a field may have grown since.

    Example:
        >>> features = np.array([[1], [2], [1], [0]], dtype=np.int32)
        >>> counts = count_values(features, [3])
        >>> [field.tolist() for field in counts], [field.tolist() for field in count_values(features + 1, [5], counts)]
        ([[1, 2, 1]], [[1, 3, 3, 1, 0]])
    """
    found = []
    for place, size in enumerate(sizes):
        counts = np.bincount(features[:, place], minlength=size)
        if before:
            counts[: before[place].size] += before[place]
        found.append(counts)
    return tuple(found)


def times_seen(counts: Counts, features: Ids) -> list[NDArray[np.int64]]:
    """Returns per field how many rows of the fit had each row's value; an unseen value had none.

    Arguments:
        counts: The model's counts.
        features: Field ids `(n, F)`.
    """
    return [np.where(ids > 0, rows[ids], 0) for rows, ids in zip(counts, features.T, strict=True)] if counts else []
