r"""Running comparisons of live traffic with fit time, in counts that can be added over workers."""

from __future__ import annotations

import math
from typing import final

import numpy as np

from monocal.core.spaces import Floats

WINDOW_ROWS = 100_000
"""About how many recent rows the running numbers look back on."""


@final
class RecentSums:
    """Sums over about the last `WINDOW_ROWS` rows: whenever they cover twice as many, everything is halved.

    Halving keeps ratios as they are, needs no memory of single rows, and lets the sums of several workers be added.

    Example:
        >>> sums = RecentSums(2, window_rows=100)
        >>> for _ in range(1000):
        ...     sums.add(np.array([1.0, 0.5]), 1)
        >>> total, half = sums.values.tolist()
        >>> 100 <= total <= 200, half / total
        (True, 0.5)
    """

    def __init__(self, n_sums: int, window_rows: float = WINDOW_ROWS) -> None:
        self.values: Floats = np.zeros(n_sums)
        self.window_rows = window_rows
        self._n_rows = 0.0

    def add(self, values: Floats, n_rows: int) -> None:
        self.values += values
        self._n_rows += n_rows
        while self._n_rows > 2 * self.window_rows:
            self.values *= 0.5
            self._n_rows *= 0.5


def population_stability(live_counts: Floats, fit_shares: Floats) -> float:
    r"""Returns the population stability index of live score bins against those of the fit.

    .. math:: \mathrm{PSI} = \sum_i (q_i - p_i) \ln \frac{q_i}{p_i}

    with half a row added to every live bin, so that an empty one gives a large number and not infinity. Without rows
    it is NaN. Read it beside `stability_noise`.

    Example:
        >>> same = population_stability(np.array([50.0, 50.0]), np.array([0.5, 0.5]))
        >>> moved = population_stability(np.array([90.0, 10.0]), np.array([0.5, 0.5]))
        >>> round(same, 3), round(moved, 2)
        (0.0, 0.85)
    """
    n_rows = float(live_counts.sum())
    if n_rows <= 0.0:
        return math.nan
    q = (live_counts + 0.5) / (n_rows + 0.5 * live_counts.size)
    p = np.maximum(fit_shares, 1e-6)
    return float(np.sum((q - p) * np.log(q / p)))


def stability_noise(n_live: float, n_fit: float, n_bins: int) -> float:
    """Returns the index to expect from chance alone when nothing has moved: (bins − 1)(1/live + 1/fit).

    Example:
        >>> round(stability_noise(1000, 100_000, 20), 3)
        0.019
    """
    if n_live <= 0.0 or n_fit <= 0.0:
        return math.nan
    return (n_bins - 1) * (1.0 / n_live + 1.0 / n_fit)


def running_pcoc(predicted: float, positives: float) -> float:
    """Returns the sum of predictions over the sum of labels; NaN while no positive has come back.

    Example:
        >>> running_pcoc(12.0, 10.0), running_pcoc(3.0, 0.0)
        (1.2, nan)
    """
    return predicted / positives if positives > 0.0 else math.nan
