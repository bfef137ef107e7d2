"""The newest rows of a fit in one place, also where a team has them in shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.core.team import Shards


def newest_rows(samples: Samples, columns: Sequence[Floats], n_rows: int) -> tuple[Samples, list[Floats]]:
    """Returns the newest rows of all members, in time order and without shards, and their part of further columns.

    Of rows in shards each shard gives its own share of the newest, and every member gets those of all, one column
    after the other. Rows of one moment come in a random order that is always the same, so that an order by contents is
    not taken for time. Where the shards know no order across each other, a row's place among those of its shard stands
    for it.

    Arguments:
        samples: This member's rows.
        columns: One number per row each.
        n_rows: How many rows are wanted; fewer if there are no more.

    Example:
        Two shards with the even and the odd rows.

        >>> from monocal.core.team import Alone
        >>> order = np.array([0, 2, 4, 1, 3, 5])
        >>> shards = Shards(Alone(), 2, (0, 1), np.array([0, 3, 6]), order)
        >>> rows = Samples(order / 10.0, np.zeros(6), shards=shards)
        >>> few, (tens,) = newest_rows(rows, [10.0 * order], 4)
        >>> few.logits.tolist(), tens.tolist(), few.shards
        ([0.2, 0.3, 0.4, 0.5], [20.0, 30.0, 40.0, 50.0], None)
    """
    shards = samples.in_shards
    n_all = int(shards.team.count(np.array([samples.n_rows]))[0])
    rows = slice(None) if n_all <= n_rows else shards.newest(n_rows)[0]
    few, chosen = samples.take(rows), [column[rows] for column in columns]
    return (few, chosen) if few.shards is None else _together(few, few.shards, chosen)


def _together(rows: Samples, shards: Shards, columns: Sequence[Floats]) -> tuple[Samples, list[Floats]]:
    parts = [part for _, part in shards.parts()]
    places = [(np.arange(part.stop - part.start) + 0.5) / max(part.stop - part.start, 1) for part in parts]
    moments = shards.join(places if shards.order is None else [shards.order[part] for part in parts])
    rising = np.lexsort((np.random.default_rng(0).permutation(len(moments)), moments))

    def joined(column: NDArray[Any]) -> Floats:
        found: Floats = shards.join([column[part] for part in parts])[rising]
        return found

    features = None
    if rows.features is not None:
        features = np.empty((len(rising), rows.features.shape[1]), np.int32)
        for field in range(features.shape[1]):
            features[:, field] = joined(rows.features[:, field])
    times = None if rows.times is None else joined(rows.times).astype(np.int64)
    numbers = joined(rows.logits), joined(rows.known_labels), features, joined(rows.weights_or_ones), times
    return Samples(*numbers, rows.numeric_knots), [joined(column) for column in columns]
