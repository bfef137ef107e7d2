"""Order statistics of rows that lie in several shards, by bisection: nobody sees another member's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.core.team import Shards

Keys = NDArray[np.int64]

_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def keys_at(masses: Floats, keys: Sequence[Keys], weights: Sequence[Floats] | None, shards: Shards) -> Keys:
    """Returns, for every wanted mass, the smallest key below which the rows of all shards weigh at least so much.

    64 rounds, one per bit of a key; each reduces one number per wanted mass. If all rows together weigh less, the
    answer is the largest integer.

    Arguments:
        masses: How much weight is wanted.
        keys: Of the rows of each own shard, rising.
        weights: Of the same rows; None means 1 each.
        shards: Who adds up.

    Example:
        >>> from monocal.core.team import Alone
        >>> shards = Shards(Alone(), 2, (0, 1), np.array([0, 2, 4]))
        >>> keys_at(np.array([2.0, 3.0]), [np.array([10, 30]), np.array([20, 40])], None, shards).tolist()
        [21, 31]
    """
    before = None if weights is None else [np.concatenate([[0.0], np.cumsum(w)]) for w in weights]

    def below(middle: Keys) -> list[Floats]:
        places = [np.searchsorted(shard_keys, middle) for shard_keys in keys]
        if before is None:
            return [place.astype(np.float64) for place in places]
        return [mass[place] for place, mass in zip(places, before, strict=True)]

    return _bisected(masses, below, shards)


def values_at(masses: Floats, values: Floats, groups: Keys, weights: Floats, shards: Shards) -> Floats:
    """Returns, for every group and wanted mass, the smallest value up to which the group's rows weigh so much.

    As `keys_at`, for many groups of rows at once.

    Arguments:
        masses: How much weight is wanted, `(groups, k)`; not more than the group has.
        values: One per row of this member.
        groups: The row's group; -1 for rows that take no part.
        weights: How often each row counts.
        shards: How the rows are cut and with whom they are added up.

    Example:
        >>> from monocal.core.team import Alone
        >>> shards = Shards(Alone(), 2, (0, 1), np.array([0, 2, 5]))
        >>> values, groups = np.array([3.0, 1.0, 7.0, 0.5, 2.0]), np.array([0, 1, 0, 1, 0])
        >>> values_at(np.array([[2.0], [1.0]]), values, groups, np.ones(5), shards).tolist()
        [[3.0], [0.5]]
    """
    n_groups, n_wanted = masses.shape
    ordered = []
    for _, part in shards.parts():
        bits = _ordered_bits(values[part])
        order = np.lexsort((bits, groups[part]))
        starts = np.searchsorted(groups[part][order], np.arange(n_groups + 1))
        before = np.concatenate([[0.0], np.cumsum(weights[part][order])])
        ordered.append((bits[order], np.repeat(starts, n_wanted), before))

    def below(middle: Keys) -> list[Floats]:
        found = []
        for keys, starts, before in ordered:
            first, end = starts[:-n_wanted], starts[n_wanted:]
            found.append(before[_places(keys, first, end, middle)] - before[first])
        return found

    # below the key after a value lie the value itself and all smaller ones
    return _numbers(_bisected(masses.ravel() * (1.0 - 1e-15), below, shards) - 1).reshape(masses.shape)


def _bisected(masses: Floats, below: Callable[[Keys], list[Floats]], shards: Shards) -> Keys:
    """Returns the smallest keys below which all shards weigh the wanted masses; `below` says it for own shards."""
    low, high = np.full(len(masses), _LOWEST), np.full(len(masses), _HIGHEST)
    while (low < high).any():
        middle = (low & high) + ((low ^ high) >> 1)
        enough = shards.add([[mass] for mass in below(middle)])[0] >= masses
        high, low = np.where(enough, middle, high), np.where(enough | (low >= high), low, middle + 1)
    return high


def _places(keys: Keys, first: Keys, end: Keys, wanted: Keys) -> Keys:
    """Returns where wanted keys stand among stretches of the keys, each of them rising."""
    low, high = first, end
    while (low < high).any():
        middle = (low + high) // 2
        smaller = (low < high) & (keys[np.minimum(middle, len(keys) - 1)] < wanted)
        low, high = np.where(smaller, middle + 1, low), np.where(smaller, high, np.maximum(low, middle))
    return low


def quantiles_of_shards(values: Floats, shares: Floats, weights: Floats | None, shards: Shards) -> Floats:
    """Returns quantiles over all shards, between neighbours as `numpy.quantile` has them when weights are 1.

    Arguments:
        values: This member's.
        shares: In [0, 1].
        weights: How often each value counts; None means once.
        shards: How the rows are cut and with whom they are added up.

    Example:
        >>> from monocal.core.team import Alone
        >>> shards = Shards(Alone(), 2, (0, 1), np.array([0, 2, 5]))
        >>> quantiles_of_shards(np.array([3.0, -1.0, 7.0, 0.5, 2.0]), np.array([0.0, 0.5, 0.9]), None, shards)
        array([-1. ,  2. ,  5.4])
    """
    keys, masses = [], []
    for _, part in shards.parts():
        bits = _ordered_bits(values[part])
        if weights is None:
            bits.sort()
            keys.append(bits)
        else:
            rising = np.argsort(bits, kind="stable")
            keys.append(bits[rising])
            masses.append(weights[part][rising])
    if weights is None:
        total = float(shards.team.count(np.array([values.shape[0]]))[0])
    else:
        total = float(shards.add([[float(mass.sum())] for mass in masses])[0])
    places = shares * max(total - 1.0, 0.0)
    wanted = np.minimum(np.concatenate([np.floor(places), np.ceil(places)]) + 1.0, total)
    # below the key after a value lie the value itself and all smaller ones
    below, above = np.split(_numbers(keys_at(wanted * (1.0 - 1e-15), keys, masses or None, shards) - 1), 2)
    found: Floats = below + (places - np.floor(places)) * (above - below)
    return found


def _ordered_bits(values: Floats) -> Keys:
    """Returns integers that rise with the numbers."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ _HIGHEST, bits)


def _numbers(keys: Keys) -> Floats:
    return np.where(keys < 0, keys ^ _HIGHEST, keys).view(np.float64)
