"""Sums over recent traffic, which can be added over workers."""

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


def running_pcoc(predicted: float, positives: float) -> float:
    """Returns the sum of predictions over the sum of labels; NaN while no positive has come back.

    Example:
        >>> running_pcoc(12.0, 10.0), running_pcoc(3.0, 0.0)
        (1.2, nan)
    """
    return predicted / positives if positives > 0.0 else math.nan
