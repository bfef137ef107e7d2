"""Numbers as ids: fine steps between knots, so that a field of numbers travels wherever a field of categories does."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.spaces import Floats

NULL_ID, FIRST_ID = 1, 2
"""Id 0 stays the unseen value; a null is a value of its own."""

STEPS = 2048
"""Ids between two knots. A number is rounded to the nearest: what a model adds for it is off by at most 1/4096 of the
difference between two neighbouring knots, far below what any log can tell."""

MOST_KNOTS = 17
OUTER_QUANTILES = 0.01, 0.99
"""Beyond the outer knots everything is constant, so that no outlier stretches the last piece."""


def learn_knots(values: ArrayLike, counts: ArrayLike) -> tuple[float, ...]:
    """Returns up to seventeen knots at equally spaced quantiles; all the values if there are no more than that.

    Arguments:
        values: Distinct numbers; NaN is left out.
        counts: How many rows have each.

    Example:
        >>> learn_knots([3.0, 1.0, np.nan], [5, 5, 9])
        (1.0, 3.0)
        >>> knots = learn_knots(np.arange(1000.0), np.ones(1000))
        >>> len(knots), knots[0], knots[8], knots[-1]
        (17, 9.0, 499.0, 989.0)
    """
    numbers, masses = np.asarray(values, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    known = np.isfinite(numbers) & (masses > 0.0)
    numbers, masses = numbers[known], masses[known]
    order = np.argsort(numbers, kind="stable")
    numbers, masses = numbers[order], masses[order]
    if len(numbers) > MOST_KNOTS:
        mass = np.cumsum(masses)
        wanted = np.linspace(*OUTER_QUANTILES, MOST_KNOTS) * mass[-1]
        numbers = numbers[np.minimum(np.searchsorted(mass, wanted - 1e-9), len(numbers) - 1)]
    return tuple(float(number) for number in np.unique(numbers))


def n_numeric_ids(n_knots: int) -> int:
    """Returns how many ids a field with so many knots has, those of unseen and null included."""
    return FIRST_ID + max(n_knots - 1, 0) * STEPS + 1


def ids_of_numbers(numbers: Floats, knots: NDArray[np.float64]) -> NDArray[np.int32]:
    """Returns the id of every number; beyond the outer knots that of the knot, and of NaN that of a null.

    Example:
        >>> ids_of_numbers(np.array([1.0, 1.5, 2.0, 99.0, np.nan]), np.array([1.0, 2.0])).tolist()
        [2, 1026, 2050, 2050, 1]
    """
    if not len(knots):
        return np.where(np.isnan(numbers), NULL_ID, FIRST_ID).astype(np.int32)
    places = np.interp(numbers, knots, np.arange(len(knots), dtype=np.float64))
    steps = np.rint(np.nan_to_num(places) * STEPS) + FIRST_ID
    return np.where(np.isnan(numbers), NULL_ID, steps).astype(np.int32)


def numbers_of_ids(ids: NDArray[np.int32], knots: NDArray[np.float64]) -> Floats:
    """Returns the number that each id stands for; NaN for a null and for an unseen value.

    Example:
        >>> numbers_of_ids(np.array([0, 1, 1026], dtype=np.int32), np.array([1.0, 2.0])).tolist()
        [nan, nan, 1.5]
    """
    if not len(knots):
        return np.full(ids.shape, np.nan)
    found = np.interp((ids - FIRST_ID) / STEPS, np.arange(len(knots)), knots)
    return np.where(ids >= FIRST_ID, found, np.nan)
