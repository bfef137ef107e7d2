"""How good a forecast is if it is calibrated: performance before any label is there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monocal.core.log_loss import log_loss
from monocal.core.spaces import Floats, logit


class Expected(NamedTuple):
    """What a forecast expects of itself. True only as far as the forecast is calibrated on these rows.

    Attributes:
        rate: Share of positives.
        log_loss: Mean log-loss.
        auc: Area under the ROC curve; NaN if all forecasts are 0 or all are 1.
    """

    rate: float
    log_loss: float
    auc: float


def expected_performance(probabilities: Floats) -> Expected:
    r"""Returns rate, log-loss and AUC of labels that would be drawn from the forecast.

    .. math:: \bar p, \qquad -\frac1n \sum_i p_i \ln p_i + (1-p_i) \ln (1-p_i), \qquad
              \frac{\sum_{ij} p_i (1-p_j)\,([p_i > p_j] + \frac12 [p_i = p_j])}{\sum_{ij} p_i (1-p_j)}

    The AUC is the ratio of expectations, which for many rows is the expectation of the ratio.

    Example:
        >>> found = expected_performance(np.array([0.1, 0.1, 0.4, 0.4]))
        >>> round(found.rate, 2), round(found.log_loss, 3), round(found.auc, 3)
        (0.25, 0.499, 0.7)
    """
    loss = log_loss(logit(probabilities), probabilities)
    values, places = np.unique(probabilities, return_inverse=True)
    positives = np.bincount(places, weights=probabilities)
    negatives = np.bincount(places, weights=1.0 - probabilities)
    below = np.cumsum(negatives) - negatives
    pairs = positives.sum() * negatives.sum()
    auc = float(np.sum(positives * (below + 0.5 * negatives)) / pairs) if pairs > 0.0 and values.size else float("nan")
    return Expected(float(probabilities.mean()), loss, auc)
