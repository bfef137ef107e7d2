"""Time blocks of rows that lie in several shards: the same moments cut all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.carry_over.periods import MOST_PERIODS, N_BLOCKS, chosen_periods, day_length
from monocal.core.samples import Samples
from monocal.core.shard_order import keys_at
from monocal.core.spaces import Floats
from monocal.core.team import Shards

MOST_DAYS = 100_000
"""A clock that spans more is none."""


def blocks_of_shards(samples: Samples, shards: Shards) -> tuple[NDArray[np.int64], Floats, bool]:
    """Returns edges per own shard, the share of all weight before each, and whether all rows are of one moment.

    Whole periods where the times have enough of them, by the weight that all shards have in each; otherwise moments
    that cut the weight of all shards into twenty equal shares.

    Arguments:
        samples: Rows whose shards know their order.
        shards: How they are cut.
    """
    assert shards.order is not None
    parts = [part for _, part in shards.parts()]
    weights = None if samples.weights is None else [samples.weights[part] for part in parts]
    total = float(shards.add_up(lambda rows: [float(samples.weights_of(rows).sum())])[0])
    periods, n_periods, one_moment = _periods(samples, shards)
    edges = None
    if periods is not None:
        edges = _period_edges([periods[part] for part in parts], n_periods, weights, total, shards)
    if edges is None:
        order = [shards.order[part] for part in parts]
        moments = np.unique(keys_at((np.arange(1, N_BLOCKS) / N_BLOCKS - 1e-12) * total, order, weights, shards))
        edges = [np.concatenate([[0], np.searchsorted(keys, moments), [len(keys)]]) for keys in order]
    if weights is None:
        before = [at.astype(np.float64) for at in edges]
    else:
        before = [np.concatenate([[0.0], np.cumsum(w)])[at] for w, at in zip(weights, edges, strict=True)]
    shares = shards.add([[mass] for mass in before])[0] / total
    # moments that no row lies between, or none after
    new = np.concatenate([[True], np.diff(shares) > 0.0])
    return (np.array(edges) + shards.edges[:-1, None])[:, new], shares[new], one_moment


def _periods(samples: Samples, shards: Shards) -> tuple[NDArray[np.int64] | None, int, bool]:
    """Returns every row's period counted from the first one, how many there are, and whether all is one moment."""
    times = samples.times
    if times is None:
        return None, 0, False
    # a member without rows knows neither end
    ends = np.array([-float(times.min()), float(times.max())]) if times.size else np.full(2, -np.inf)
    first, last = (int(end) for end in shards.team.most(ends) * [-1.0, 1.0])
    day = day_length(last)
    unit, most = (1, MOST_PERIODS) if day is None else (day, MOST_DAYS)
    n_periods = last // unit - first // unit + 1
    return (times // unit - first // unit if n_periods <= most else None), n_periods, first == last


def _period_edges(
    periods: list[NDArray[np.int64]], n_periods: int, weights: list[Floats] | None, total: float, shards: Shards
) -> list[NDArray[np.int64]] | None:
    of_rows = [None] * len(periods) if weights is None else weights
    sums = [[np.bincount(days, w, n_periods).astype(np.float64)] for days, w in zip(periods, of_rows, strict=True)]
    mass = shards.add(sums)[0]
    present = np.flatnonzero(mass)
    chosen = chosen_periods(np.concatenate([[0.0], np.cumsum(mass[present])]) / total)
    if chosen is None:
        return None
    return [np.append(np.searchsorted(days, present[chosen]), len(days)) for days in periods]
