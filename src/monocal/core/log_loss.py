r"""The log-loss of logits, without overflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.spaces import Floats


def log_losses(logits: ArrayLike, labels: ArrayLike) -> Floats:
    r"""Returns the cross-entropy of each row, :math:`\ln(1 + e^z) - y z`.

    It equals :math:`-y \ln p - (1-y)\ln(1-p)` with :math:`p = \sigma(z)`, and is finite for every finite logit, where
    the second form takes the logarithm of 0. Labels may be shares between 0 and 1. For probabilities pass `logit(p)`,
    which clips them.

    Example:
        >>> log_losses([0.0, 2.0, -1000.0], [1.0, 0.0, 1.0]).round(4).tolist()
        [0.6931, 2.1269, 1000.0]
    """
    z = np.asarray(logits, dtype=np.float64)
    losses: Floats = np.logaddexp(0.0, z) - np.asarray(labels) * z
    return losses


def log_loss(logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Returns the mean cross-entropy; weight k counts a row k times.

    Example:
        >>> round(log_loss([2.0, 0.0], [1, 0]), 4), round(log_loss([2.0, 0.0], [1, 0], weights=[3, 1]), 4)
        (0.41, 0.2685)
    """
    return float(np.average(log_losses(logits, labels), weights=None if weights is None else np.asarray(weights)))
