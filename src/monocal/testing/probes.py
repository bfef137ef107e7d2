"""Where a curve that should never fall is probed: everywhere, at its kinks, and between neighbouring numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from monocal.core.scores import LOGIT_LIMIT, Floats

Curve = Callable[[Floats], Floats]

N_STEPS = 16_000
_KINKS, _PIECES, _ROUNDS = 24, 32, 7


def dense_probes(curve: Curve, *, seed: int = 0) -> Floats:
    """Returns sorted logits from −40 to 40: an even grid of 16,000 steps, the curve's kinks, chains of neighbours.

    A grid finds wrong shapes. Between two pieces of a curve a rounding error can make a step down that is narrower
    than any grid: the cells where the slope changes most are divided 32-fold, seven times over, down to neighbouring
    float64 numbers. Chains of numbers without any float64 in between find functions that round up and down in turn.

    Arguments:
        curve: Takes logits, returns one prediction each.
        seed: Of the places where chains start.

    Example:
        >>> probes = dense_probes(lambda z: np.where(z < 0.3, z, 0.3))
        >>> len(probes) > 16_000, float(probes[0]), float(probes[-1])
        (True, -40.0, 40.0)
        >>> bool(np.isin([np.nextafter(0.3, -1.0), 0.3], probes).all())
        True
    """
    grid = np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, N_STEPS + 1)
    generator = np.random.default_rng(seed)
    starts = np.concatenate([generator.uniform(-1.0, 1.0, 24), generator.uniform(-16.2, 16.2, 24)])
    return np.unique(np.concatenate([grid, _around_kinks(curve, grid), neighbours(starts, 48).ravel()]))


def neighbours(starts: Floats, n_numbers: int) -> Floats:
    """Returns, for every start, a row of consecutive float64 numbers.

    Example:
        >>> chain = neighbours(np.array([1.0]), 3)[0]
        >>> bool(chain[1] == np.nextafter(1.0, 2.0)), bool(chain[2] == np.nextafter(chain[1], 2.0))
        (True, True)
    """
    chain = [starts]
    for _ in range(n_numbers - 1):
        chain.append(np.nextafter(chain[-1], np.inf))
    return np.stack(chain, axis=1)


def _around_kinks(curve: Curve, grid: Floats) -> Floats:
    found = [np.zeros(0)]
    second_differences = np.abs(np.diff(curve(grid), n=2))
    middles = np.argsort(second_differences)[-_KINKS:] + 1
    low, high = grid[middles - 1], grid[middles + 1]
    for _ in range(_ROUNDS):
        pieces = np.clip(np.linspace(low, high, _PIECES + 1, axis=1), grid[0], grid[-1])
        found.append(pieces.ravel())
        second_differences = np.abs(np.diff(curve(pieces.ravel()).reshape(pieces.shape), n=2, axis=1))
        at = np.argmax(second_differences, axis=1)
        each = np.arange(_KINKS)
        low, high = pieces[each, at], pieces[each, at + 2]
    middle = 0.5 * (low + high)
    for _ in range(24):
        middle = np.nextafter(middle, -np.inf)
    found.append(neighbours(middle, 48).ravel())
    return np.clip(np.concatenate(found), grid[0], grid[-1])
