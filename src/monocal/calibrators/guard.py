"""Whether a fit does more harm than good on rows it has not seen."""

from __future__ import annotations

import warnings

from monocal.core.dataset import Dataset
from monocal.core.errors import MonocalWarning
from monocal.core.spaces import Floats, logit, sigmoid

GUARD_SHARE = 0.2
"""The most recent share of rows on which `guard=True` judges the fit."""


def is_worse(method: str, recent: Dataset, probabilities: Floats) -> bool:
    """Says, and warns, that probabilities have a larger log-loss than the scores they were made from.

    Arguments:
        method: Its name, for the warning.
        recent: Rows that the fit has not seen.
        probabilities: What it predicts for them.
    """
    before = recent.log_loss(logit(sigmoid(recent.z)))
    after = recent.log_loss(logit(probabilities))
    if after <= before:
        return False
    warnings.warn(
        f"{method}: on the most recent {GUARD_SHARE:.0%} of the rows its log-loss is {after:.5f}, the "
        f"uncalibrated score's {before:.5f}; falling back to the uncalibrated score",
        MonocalWarning,
        stacklevel=4,
    )
    return True
