"""Statistics of few positives and of many tests: intervals, p-values, shrinkage, false discovery rates, spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from monocal.core.scores import Floats


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


Flags = NDArray[np.bool_]


def adjusted_p_values(p_values: Floats) -> Floats:
    """Returns p-values corrected for their number after Benjamini and Hochberg; the least is Simes' p-value of all.

    Example:
        >>> adjusted_p_values(np.array([0.001, 0.04, 0.03, 0.9])).round(4).tolist()
        [0.004, 0.0533, 0.0533, 0.9]
    """
    if not p_values.size:
        return p_values
    from scipy.stats import false_discovery_control

    adjusted: Floats = false_discovery_control(p_values)
    return adjusted


def discoveries(p_values: Floats, rate: float) -> Flags:
    """Returns which tests are rejected when the false discovery rate is held at `rate`.

    Example:
        >>> discoveries(np.array([0.001, 0.04, 0.03, 0.9]), 0.05).tolist()
        [True, False, False, False]
    """
    flagged: Flags = adjusted_p_values(p_values) <= rate
    return flagged


def joint_discoveries(families: Sequence[Floats], rate: float) -> list[Flags]:
    """Holds the rate over the tests of several families together and returns the flags of each."""
    if not families:
        return []
    ends = np.cumsum([family.shape[0] for family in families])[:-1]
    return np.split(discoveries(np.concatenate(families), rate), ends)


def two_stage_discoveries(
    whole_p_values: Sequence[float], p_values: Sequence[Floats], rate: float
) -> tuple[Flags, list[Flags]]:
    r"""Selects families by the Benjamini-Hochberg rule, then members of the selected ones by the same rule.

    A family's p-value is twice the smaller of its own test and Simes' combination of its members', so both many small
    errors and a single large one are found. If R of m families are selected, members of those are tested at the rate
    :math:`q R / m`. Then the false discovery rate, averaged over the selected families, is at most q; a field with five
    values is not punished for another field's five thousand.

    Arguments:
        whole_p_values: One p-value per family, from a test of the family as a whole; NaN where there is none.
        p_values: The p-values of each family's members.
        rate: The rate q.

    Returns:
        Which families are selected, and for each family which members are flagged.

    References:
        Benjamini and Bogomolov. Selective inference on multiple families of hypotheses. 2014.

    Example:
        >>> families, members = two_stage_discoveries([1e-6, 0.5], [np.array([1e-5, 0.4]), np.full(1000, 0.5)], 0.05)
        >>> families.tolist(), members[0].tolist(), int(members[1].sum())
        ([True, False], [True, False], 0)
    """
    adjusted = [adjusted_p_values(members) for members in p_values]
    combined = [
        min(1.0, 2.0 * float(np.nanmin([whole, members.min(initial=1.0)])))
        for whole, members in zip(whole_p_values, adjusted, strict=True)
    ]
    selected = discoveries(np.array(combined), rate)
    share = float(selected.mean()) if selected.size else 0.0
    return selected, [chosen & (members <= rate * share) for chosen, members in zip(selected, adjusted, strict=True)]


LEAST_EXPECTED = 5.0
"""With fewer expected positives in all cells together there is nothing to test."""


@final
@dataclass(frozen=True)
class Spread:
    """How far cells are off, together.

    Attributes:
        relative_error: Typical error of a cell beyond noise, as a share of its prediction (0.08 means 8 %); 0 when
            chance explains all of it.
        p_value: Probability of gaps this large if the forecast were right; NaN with too few positives to tell.
        resolution: The smallest error that would stand out of the noise here (two standard errors).
    """

    relative_error: float
    p_value: float
    resolution: float

    @property
    def is_visible(self) -> bool:
        """Whether the error stands out of the noise."""
        return self.relative_error >= self.resolution


def spread_of(counts: MatchedCounts) -> Spread:
    r"""Measures the gaps :math:`r_c = y_c - E_c` between observed and predicted positives against chance.

    .. math:: \epsilon^2 = \frac{\sum_c s_c\,(r_c^2 - \kappa_c\, y_c)}{\sum_c s_c\, E_c^2},
              \qquad s_c = \frac{1}{\max(v_c, 1)}, \quad \kappa_c = 1 - m\,\frac{\sum p^2}{\sum p}

    where :math:`v_c` is the variance of :math:`y_c` under a right forecast and m the ratio of all observed to all
    predicted positives. :math:`\mathbb{E}\,r^2` exceeds the squared bias by the variance of y, which :math:`\kappa y`
    estimates whatever the bias; so :math:`\epsilon^2` is the mean squared relative error without its noise, at any
    number of rows, down to cells with a fraction of a predicted positive. Under a right forecast it is zero on average;
    a negative one is shown as 0. The p-value compares :math:`\sum s_c (r_c^2 - (v_c/E_c)\, r_c)` with a gamma
    distribution of the same mean, variance and skewness, which are known for a right forecast: a sum of :math:`\chi^2`
    for large cells, of second Charlier polynomials for small ones.

    Example:
        Fifty values with a hundred predicted clicks each, of which a hundred and twenty came:

        >>> off = MatchedCounts(np.full(50, 120.0), np.full(50, 100.0), np.full(50, 1e4))
        >>> round(spread_of(off).relative_error, 2), spread_of(off).p_value < 1e-6
        (0.17, True)
    """
    used = counts.expected > 0.0
    expected, seen = counts.expected[used], counts.positives[used]
    if not expected.size:
        return Spread(float("nan"), float("nan"), float("nan"))
    rate = np.clip(counts.rate[used], 0.0, 1.0)
    ratio = 1.0 - rate
    variance = expected * ratio
    gap = seen - expected
    scale = 1.0 / np.maximum(variance, 1.0)
    size = float(np.sum(scale * expected**2))
    excess = float(np.sum(scale * (gap**2 - counts.noise[used]))) / size
    error = float(np.sqrt(max(excess, 0.0)))
    third, fourth = variance * (1.0 - 2.0 * rate), variance * (1.0 - 6.0 * rate * ratio)
    noise = float(np.sum(scale**2 * (2.0 * variance**2 + fourth - 2.0 * ratio * third + ratio**2 * variance)))
    resolution = float(np.sqrt(2.0 * np.sqrt(noise) / size))
    if float(variance.sum()) < LEAST_EXPECTED:
        return Spread(error, float("nan"), resolution)
    skew = float(np.sum(scale**3 * (8.0 * variance**3 + 4.0 * third**2))) / noise**1.5
    score = float(np.sum(scale * (gap**2 - ratio * gap - variance))) / np.sqrt(noise)
    return Spread(error, _gamma_tail(score, skew), resolution)


def levelled(counts: MatchedCounts) -> MatchedCounts:
    """Scales the predictions so that they are right in total; what differs then differs between cells.

    Example:
        >>> both = MatchedCounts(np.array([30.0, 10.0]), np.array([15.0, 5.0]), np.array([100.0, 100.0]))
        >>> levelled(both).expected.tolist()
        [30.0, 10.0]
    """
    total = float(counts.expected.sum())
    level = float(counts.positives.sum()) / total if total > 0.0 else 1.0
    return MatchedCounts(counts.positives, counts.expected * level, counts.trials)


def _gamma_tail(score: float, skew: float) -> float:
    """Upper tail of a standardised gamma variable with this skewness."""
    shape = 4.0 / skew**2
    return float(special.gammaincc(shape, max(shape + score * np.sqrt(shape), 0.0)))
