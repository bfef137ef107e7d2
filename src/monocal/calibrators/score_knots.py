"""Knots at quantiles of the scores, for maps that are straight in between."""

from __future__ import annotations

import numpy as np

from monocal.core.shard_order import quantiles_of_shards
from monocal.core.spaces import Floats
from monocal.core.team import Shards

_OUTER_QUANTILE = 0.005


def score_knots(logits: Floats, n_knots: int, weights: Floats | None = None, shards: Shards | None = None) -> Floats:
    """Returns increasing knots at quantiles of the logits, at least two of them however the logits repeat.

    Arguments:
        logits: One per row.
        n_knots: At most this many.
        weights: How often each row counts.
        shards: How the rows are cut and with whom they are ordered; all of them at once if not given.

    Example:
        >>> score_knots(np.array([2.0, 2.0, 2.0]), 12).tolist()
        [1.5, 2.5]
    """
    quantiles = np.linspace(_OUTER_QUANTILE, 1.0 - _OUTER_QUANTILE, max(n_knots, 2))
    if shards is None:
        knots: Floats = np.unique(_quantiles(logits, quantiles, weights))
    else:
        knots = np.unique(quantiles_of_shards(logits, quantiles, weights, shards))
    # knots that nearly touch would make a segment whose slope is all rounding
    apart = np.concatenate([[True], np.diff(knots) > 1e-6 * max(float(np.ptp(knots)), 1e-300)])
    knots = knots[apart]
    return knots if knots.shape[0] > 1 else knots[0] + np.array([-0.5, 0.5])


def _quantiles(values: Floats, shares: Floats, weights: Floats | None) -> Floats:
    result: Floats
    if weights is None:
        result = np.quantile(values, shares)
        return result
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    places = shares * max(cumulative[-1] - 1.0, 0.0)
    # where a repeated row would stand: the two neighbours of each place
    below, above = (
        values[order][np.minimum(np.searchsorted(cumulative, at, side="right"), values.size - 1)]
        for at in (np.floor(places), np.ceil(places))
    )
    result = below + (places - np.floor(places)) * (above - below)
    return result
