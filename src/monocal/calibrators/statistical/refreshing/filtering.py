"""One step of the filter behind every refresh: an effect moves, then rows are seen."""

from __future__ import annotations

import numpy as np

from monocal.core.spaces import Floats


def moved_on(mean: Floats, precision: Floats, walk: Floats, pull: Floats) -> tuple[Floats, Floats]:
    r"""Returns mean and variance of effects at the next step, before its rows are seen.

    .. math:: \delta' = \varphi\,\delta + \mathcal N(0, q), \qquad \varphi^2 = 1 - q \lambda

    An effect whose own distribution is :math:`\mathcal N(0, 1/\lambda)` keeps that distribution while it walks; so
    without rows its mean fades to 0 and its variance returns to 1/λ. A λ that would not leave room for the walk gives
    way, to :math:`1/(9 q)`: what was alike during the fit may come apart. With λ = 0 an effect walks freely.

    Arguments:
        mean: Of each effect.
        precision: 1 over its variance.
        walk: q, variance of the step.
        pull: λ.

    Example:
        >>> mean, variance = moved_on(np.array([0.5]), np.array([1e6]), np.array([0.01]), np.array([10.0]))
        >>> mean.round(3).tolist(), variance.round(3).tolist()
        ([0.474], [0.01])
    """
    kept = 1.0 - walk * with_room(pull, walk)
    return np.sqrt(kept) * mean, kept / precision + walk


def with_room(pull: Floats, walk: Floats) -> Floats:
    """Returns λ, at most so large that a step of the walk is a third of the effects' own standard deviation."""
    result: Floats = np.minimum(pull, 1.0 / np.maximum(9.0 * walk, 1e-12))
    return result


def seen(
    mean: Floats, variance: Floats, observed: Floats, information: Floats, shock: Floats
) -> tuple[Floats, Floats, Floats]:
    r"""Returns mean and precision of effects after rows were seen, and how well the rows were predicted.

    The rows say `observed` with variance :math:`1/h + s`: sampling noise, and a shock that is over by the next step and
    that all rows share, however many they are. Effects without rows stay as they are.

    Arguments:
        mean: Before the rows.
        variance: Before the rows.
        observed: What the rows alone say.
        information: h, 0 without rows.
        shock: s.

    Example:
        A thousand rows against a shock of 0.1: they count as ninety.

        >>> mean, precision, _ = seen(np.zeros(1), np.ones(1), np.ones(1), np.array([1000.0]), np.array([0.01]))
        >>> mean.round(3).tolist(), precision.round(1).tolist()
        ([0.989], [91.9])
    """
    has_rows = information > 0.0
    noise = 1.0 / np.where(has_rows, information, 1.0) + shock
    total = variance + noise
    surprise = observed - mean
    gain = np.where(has_rows, variance / total, 0.0)
    precision = 1.0 / variance + np.where(has_rows, 1.0 / noise, 0.0)
    evidence = np.where(has_rows, -0.5 * np.log(total) - 0.5 * surprise**2 / total, 0.0)
    return mean + gain * surprise, precision, evidence
