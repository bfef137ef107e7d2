"""Statistics of few positives: intervals, tests and shrinkage that stay honest when a value has three clicks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monocal.core.spaces import Floats


class MatchedCounts(NamedTuple):
    """Binomial stand-ins for sums of unequal coin flips, one per value.

    Attributes:
        positives: Observed positives, in effective observations.
        expected: Expected positives, likewise.
        trials: Number of trials (any real number) that gives the right variance.
    """

    positives: Floats
    expected: Floats
    trials: Floats

    @property
    def rate(self) -> Floats:
        return self.expected / self.trials

    @property
    def noise(self) -> Floats:
        r"""Variance of the positives whatever the bias: :math:`\kappa y` with :math:`\kappa = 1 - m \cdot` rate.

        m is the ratio of all observed to all expected positives.
        """
        total = float(self.expected.sum())
        level = float(self.positives.sum()) / total if total > 0.0 else 1.0
        return np.maximum(1.0 - level * np.clip(self.rate, 0.0, 1.0), 0.0) * self.positives


def matched_counts(positives: Floats, predicted: Floats, squares: Floats, effective_weight: Floats) -> MatchedCounts:
    r"""Matches a binomial to each sum of coin flips with probabilities :math:`p_i`.

    The sum has mean :math:`\sum p` and variance :math:`\sum p - \sum p^2`; so has a binomial with rate
    :math:`\sum p^2/\sum p` and :math:`(\sum p)^2/\sum p^2` trials. Weights are divided out first, by the weight that an
    effective observation carries.

    Example:
        >>> counts = matched_counts(*map(np.array, ([3.0], [2.0], [0.4], [1.0])))
        >>> counts.trials.round(6).tolist(), counts.rate.round(6).tolist()
        ([10.0], [0.2])
    """
    observed, expected = positives / effective_weight, predicted / effective_weight
    with np.errstate(divide="ignore", invalid="ignore"):
        trials = np.where(squares > 0.0, expected * (predicted / squares), 1.0)
    return MatchedCounts(observed, expected, np.maximum(np.maximum(trials, observed), np.finfo(np.float64).tiny))


def two_sided_p_value(counts: MatchedCounts) -> Floats:
    """Returns twice the smaller tail probability of the observed count, at most 1.

    Example:
        >>> counts = MatchedCounts(np.array([0.0, 5.0]), np.array([5.0, 5.0]), np.array([10.0, 10.0]))
        >>> two_sided_p_value(counts).round(6).tolist()
        [0.001953, 1.0]
    """
    from scipy.special import betainc

    y, n, rate = counts.positives, counts.trials, np.clip(counts.rate, 0.0, 1.0)
    missing = n - y
    at_most = np.where(missing > 0.0, betainc(np.maximum(missing, 1e-300), y + 1.0, 1.0 - rate), 1.0)
    at_least = np.where(y > 0.0, betainc(np.maximum(y, 1e-300), missing + 1.0, rate), 1.0)
    smaller: Floats = np.minimum(1.0, 2.0 * np.minimum(at_most, at_least))
    return smaller


def ratio_interval(counts: MatchedCounts, confidence: float) -> tuple[Floats, Floats]:
    """Returns the interval of expected over observed, from the Clopper-Pearson interval of the observed rate.

    Example:
        >>> low, high = ratio_interval(MatchedCounts(np.array([0.0]), np.array([2.0]), np.array([20.0])), 0.95)
        >>> low.round(3).tolist(), high.tolist()
        ([0.594], [inf])
    """
    from scipy.special import betaincinv

    y, n = counts.positives, counts.trials
    tail, missing = 0.5 * (1.0 - confidence), n - y
    least = np.where(y > 0.0, betaincinv(np.maximum(y, 1e-300), missing + 1.0, tail), 0.0)
    most = np.where(missing > 0.0, betaincinv(y + 1.0, np.maximum(missing, 1e-300), 1.0 - tail), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.where(least > 0.0, counts.rate / least, np.inf)
    return counts.rate / most, high


def shrunk_ratio(counts: MatchedCounts) -> Floats:
    r"""Returns expected over observed, pulled towards 1 by k imagined positives: :math:`(E+k)/(y+k)`.

    True ratios are taken as gamma distributed around 1 with variance :math:`1/k`, estimated from how much more the
    counts scatter than their binomials would. No extra scatter gives exactly 1 everywhere. The noise of a count is
    taken from the observed one, as in `spread_of`: taken from the expected one it would hide an overall over-prediction
    in sparse cells, and mistake an under-prediction for differences between them.

    Example:
        >>> even = MatchedCounts(np.array([10.0, 0.0]), np.array([10.0, 0.5]), np.array([100.0, 5.0]))
        >>> shrunk_ratio(even).tolist()
        [1.0, 1.0]
        >>> uneven = MatchedCounts(np.array([200.0, 50.0, 0.0]), np.array([100.0, 100.0, 1.0]), np.full(3, 1e4))
        >>> shrunk_ratio(uneven).round(2).tolist()
        [0.5, 1.97, 1.61]
    """
    y, expected = counts.positives, counts.expected
    used = expected > 0.0
    extra = float(np.sum(((y - expected) ** 2 - counts.noise)[used] / expected[used]))
    if extra <= 0.0:
        return np.ones_like(y)
    imagined = float(expected.sum()) / extra
    ratio: Floats = (expected + imagined) / (y + imagined)
    return ratio
