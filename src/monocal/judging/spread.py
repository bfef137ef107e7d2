r"""How wrong cells are beyond chance: one number and one test for all values of a field together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import special

from monocal.judging.small_counts import MatchedCounts

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
