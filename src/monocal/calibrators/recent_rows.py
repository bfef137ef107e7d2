"""What the most recent rows decide: the last intercept, and whether a fit does more harm than good."""

from __future__ import annotations

import warnings

import numpy as np

from monocal.core.dataset import Block, Dataset
from monocal.core.errors import MonocalWarning
from monocal.core.spaces import Floats, logit, sigmoid

DRIFT_SCALE = 0.05
"""Drift that is expected before looking at the rows, in logits: five per cent of a small rate."""


def recent_intercept(data: Dataset, logits: Floats) -> float:
    r"""Returns the shift that the rows ask for, shrunk by its own noise.

    .. math:: \tilde c = c\,\frac{\tau^2 + c^2}{\tau^2 + c^2 + 1/I}, \qquad I = \sum w\,p\,(1 - p)

    c makes the predicted total equal to the observed one, 1/I is its variance, τ the drift one expects. A shift that
    a few hundred clicks cannot tell from zero is mostly noise and would be carried into every forecast; one that is
    many standard errors away is kept.

    Arguments:
        data: The rows.
        logits: One per row.

    Example:
        A drift of 0.4 in the logit, seen in forty thousand rows and in two hundred.

        >>> z, y = np.zeros(200), np.tile([1.0, 1.0, 1.0, 0.0, 0.0], 40)
        >>> [round(recent_intercept(Dataset(z, y, np.full(200, weight)), z), 3) for weight in (200.0, 1.0)]
        [0.405, 0.36]
    """
    shift = solve_shift(data, logits)

    def curvature(block: Block) -> list[Floats | float]:
        p = sigmoid(block.of(logits) + shift)
        return [float(np.sum(block.w * p * (1.0 - p)))]

    information = float(data.sum(curvature)[0])
    expected = DRIFT_SCALE**2 + shift**2
    return shift * expected / (expected + 1.0 / max(information, 1e-12))


def solve_shift(data: Dataset, logits: Floats) -> float:
    r"""Returns the c with :math:`\sum w\,\sigma(z + c) = \sum w y`, by safeguarded Newton steps.

    Arguments:
        data: The rows with their labels y.
        logits: z, one per row.

    Example:
        >>> c = solve_shift(Dataset(np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0])), np.zeros(4))
        >>> round(float(sigmoid(c)), 6)
        0.25
    """

    def predicted_and_slope(block: Block) -> list[Floats | float]:
        p = sigmoid(block.of(logits) + shift)
        expected = block.w * p
        return [float(np.sum(expected)), float(np.sum(expected * (1.0 - p)))]

    positives = float(data.sum(lambda block: [float(np.sum(block.w * block.y))])[0])
    low, high, shift = -40.0, 40.0, 0.0
    for _ in range(100):
        predicted, slope = (float(total) for total in data.sum(predicted_and_slope))
        gap = predicted - positives
        low, high = (low, shift) if gap > 0.0 else (shift, high)
        step = gap / slope if slope > 0.0 else np.inf
        proposal = shift - step
        following = proposal if low < proposal < high else 0.5 * (low + high)
        if abs(following - shift) < 1e-12:
            break
        shift = following
    return shift


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
