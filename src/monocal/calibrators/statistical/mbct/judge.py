"""The multi-view error of held-out rows, in expectation over views, and which rows are held out."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from monocal.core.samples import Samples
from monocal.core.spaces import Floats

PART_ROWS = 2000.0
"""Rows of one part of a view."""


@final
class Judge:
    r"""The multi-view error: the mean over parts of random cuts of the rows of |mean label − mean prediction|.

    A part of m = 2000 random rows has a mean gap that is close to normal with the mean μ of all gaps :math:`y - p` and
    their variance over m, so the mean over all views is that of a folded normal,

    .. math:: E = s\sqrt{2/\pi}\,e^{-\mu^2/2s^2} + \mu\,\mathrm{erf}\big(\mu/(s\sqrt2)\big), \qquad s^2 = \sigma^2/m,

    which needs no random numbers and treats a row of weight k as k rows. Here μ is left out: cuts move rows against
    each other, while the level is the root's, and the level of the rows aside differs from the others' by chance, by
    more than what a good cut gains.

    Arguments:
        labels: Labels of held-out rows.
        weights: Their weights.
    """

    def __init__(self, labels: Floats, weights: Floats) -> None:
        self.labels, self.weights = labels, weights
        self.total = float(weights.sum())

    @property
    def is_empty(self) -> bool:
        return self.total == 0.0

    def error(self, predictions: Floats) -> float:
        """Returns the expected multi-view error of predictions; 0 without rows.

        Example:
            >>> judge = Judge(np.array([1.0, 0.0]), np.ones(2))
            >>> judge.error(np.array([0.9, 0.1])) < judge.error(np.array([0.5, 0.5]))
            True
        """
        if self.is_empty:
            return 0.0
        gaps = self.labels - predictions
        mean = float(self.weights @ gaps) / self.total
        return folded_mean(0.0, float(self.weights @ gaps**2) / self.total - mean**2)


def folded_mean(mean: float, variance: float) -> float:
    """Returns the mean absolute gap of parts of `PART_ROWS` rows whose gaps have this mean and variance."""
    spread = float(np.sqrt(max(variance, 0.0) / PART_ROWS))
    if spread == 0.0:
        return abs(mean)
    share = mean / spread
    return float(spread * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * share**2) + mean * erf(share / np.sqrt(2.0)))


def is_held_out(samples: Samples, share: float) -> NDArray[np.bool_]:
    """Marks rows that only judge, by a hash of score and features: equal rows go together, whatever their order."""
    keys = (samples.logits + 0.0).view(np.uint64).copy()
    if samples.features is not None:
        for place in range(samples.features.shape[1]):
            keys = _mixed(keys ^ samples.features[:, place].astype(np.uint64))
    return _mixed(keys) < np.uint64(int(share * (2**64 - 1)))


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for multiplier in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        keys = (keys ^ (keys >> np.uint64(31))) * np.uint64(multiplier)
    return keys ^ (keys >> np.uint64(29))
