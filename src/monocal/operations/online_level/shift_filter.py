"""A filtered shift per value, with a drift rate that is learned from how well each rate predicted what came next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats

RATES = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.16])
"""Standard deviations of a shift's random walk per batch, run side by side."""

_MEMORY = 0.98
_NEWTON_STEPS = 8
_LONGEST_NEWTON_STEP = 1.0


@final
class ShiftFilter:
    r"""Follows shifts :math:`\mu_v` of the values of one field (or of everything, as one value).

    For each rate q the belief about :math:`\mu_v` is normal. When a batch with rows of v arrives,

    .. math:: P \leftarrow P + q^2,\quad
       \mu \leftarrow \arg\max_m \sum_i \log \mathrm{Bernoulli}(y_i; \sigma(o_i + m)) - (m - \mu)^2 / 2P,\quad
       P^{-1} \leftarrow P^{-1} + \sum_i p_i (1 - p_i)

    with the offsets o of the rows. Rates are weighted by the likelihood that they gave to the labels before they saw
    them, older batches counting less. The shift in force is the weighted mean; it moves by at most `max_step` per
    batch and stays within `max_total`, whatever the labels say.

    Arguments:
        n_values: Number of values; a value's number is its place.
        start_sd: Standard deviation of a shift before any label.
        max_step: Largest move of a shift per batch, in logit.
        max_total: Largest shift, in logit.

    Example:
        >>> filter = ShiftFilter(1, start_sd=0.05, max_step=0.1, max_total=0.5)
        >>> labels = np.arange(1000) % 4 == 0  # a quarter, where a tenth was predicted
        >>> for _ in range(3):
        ...     filter.update(np.zeros(1000, dtype=np.int64), np.full(1000, -2.197), labels.astype(float))
        >>> filter.shifts.round(1).tolist()  # three steps of the largest size
        [0.3]
    """

    def __init__(self, n_values: int, *, start_sd: float, max_step: float, max_total: float) -> None:
        self.max_step = max_step
        self.max_total = max_total
        self.shifts = np.zeros(n_values)
        self._means = np.zeros((RATES.size, n_values))
        self._variances = np.full((RATES.size, n_values), start_sd**2)
        self._log_weights = np.zeros(RATES.size)

    @property
    def rate(self) -> float:
        """The drift rate now believed: the weighted mean of the rates."""
        return float(self._weights() @ RATES)

    def update(self, values: NDArray[np.int64], offsets: Floats, labels: Floats) -> None:
        """Learns one batch: the value, the offset (every other part of the logit) and the label of each row."""
        present, place = np.unique(values, return_inverse=True)
        likelihoods = np.empty(RATES.size)
        for number, rate in enumerate(RATES):
            before = self._means[number, present]
            variance = self._variances[number, present] + rate**2
            predicted = offsets + before[place]
            likelihoods[number] = -float(np.sum(log_losses(predicted, labels)))
            mean = before.copy()
            for _ in range(_NEWTON_STEPS):
                p = expit(offsets + mean[place])
                slope = np.bincount(place, labels - p, present.size) - (mean - before) / variance
                curvature = np.bincount(place, p * (1.0 - p), present.size) + 1.0 / variance
                mean += np.clip(slope / curvature, -_LONGEST_NEWTON_STEP, _LONGEST_NEWTON_STEP)
            p = expit(offsets + mean[place])
            self._means[number, present] = np.clip(mean, -self.max_total, self.max_total)
            self._variances[number, present] = 1.0 / (np.bincount(place, p * (1.0 - p), present.size) + 1.0 / variance)
        self._log_weights = _MEMORY * self._log_weights + likelihoods
        self._log_weights -= self._log_weights.max()
        wanted = self._weights() @ self._means[:, present]
        moved = np.clip(wanted - self.shifts[present], -self.max_step, self.max_step)
        self.shifts[present] = np.clip(self.shifts[present] + moved, -self.max_total, self.max_total)

    def to_json(self) -> dict[str, Any]:
        """Returns the whole belief in numbers that read back to the last bit; values never met are left out."""
        met = np.flatnonzero((self._variances != self._variances.flat[0]).any(axis=0) | (self.shifts != 0.0))
        return {
            "met": met.tolist(),
            "shifts": self.shifts[met].tolist(),
            "means": self._means[:, met].tolist(),
            "variances": self._variances[:, met].tolist(),
            "log_weights": self._log_weights.tolist(),
        }

    def restore(self, facts: Mapping[str, Any]) -> Self:
        """Takes over what `to_json` returned."""
        met = np.array(facts["met"], dtype=np.int64)
        self.shifts[met] = facts["shifts"]
        self._means[:, met] = facts["means"]
        self._variances[:, met] = facts["variances"]
        self._log_weights[:] = facts["log_weights"]
        return self

    def _weights(self) -> Floats:
        weights = np.exp(self._log_weights)
        shares: Floats = weights / weights.sum()
        return shares
