"""The last intercept, set by the most recent rows as far as they can tell it."""

from __future__ import annotations

import numpy as np

from monocal.core.row_weights import weights_of
from monocal.core.spaces import Floats, sigmoid
from monocal.core.team import Shards

DRIFT_SCALE = 0.05
"""Drift that is expected before looking at the rows, in logits: five per cent of a small rate."""


def recent_intercept(logits: Floats, labels: Floats, weights: Floats | None, shards: Shards | None = None) -> float:
    r"""Returns the shift that the rows ask for, shrunk by its own noise.

    .. math:: \tilde c = c\,\frac{\tau^2 + c^2}{\tau^2 + c^2 + 1/I}, \qquad I = \sum w\,p\,(1 - p)

    c makes the predicted total equal to the observed one, 1/I is its variance, τ the drift one expects. A shift that
    a few hundred clicks cannot tell from zero is mostly noise and would be carried into every forecast; one that is
    many standard errors away is kept.

    Arguments:
        logits: One per row.
        labels: 0 or 1 per row.
        weights: How often each row counts; None means once.
        shards: How the rows are cut and with whom they are added up; all of them at once if not given.

    Example:
        A drift of 0.4 in the logit, seen in forty thousand rows and in two hundred.

        >>> rows = np.zeros(200), np.tile([1.0, 1.0, 1.0, 0.0, 0.0], 40), np.ones(200)
        >>> round(recent_intercept(rows[0], rows[1], 200 * rows[2]), 3), round(recent_intercept(*rows), 3)
        (0.405, 0.36)
    """
    shards = shards or Shards.whole(logits.shape[0])
    shift = solve_shift(logits, labels, weights, shards)

    def curvature(rows: slice) -> list[Floats | float]:
        p = sigmoid(logits[rows] + shift)
        return [float(np.sum(weights_of(weights, rows, logits.shape[0]) * p * (1.0 - p)))]

    information = float(shards.add_up(curvature)[0])
    expected = DRIFT_SCALE**2 + shift**2
    return shift * expected / (expected + 1.0 / max(information, 1e-12))


def solve_shift(logits: Floats, labels: Floats, weights: Floats | None, shards: Shards | None = None) -> float:
    r"""Returns the c with :math:`\sum w\,\sigma(z + c) = \sum w y`, by safeguarded Newton steps.

    Arguments:
        logits: z, one per row.
        labels: y, 0 or 1 per row.
        weights: How often each row counts; None means once.
        shards: How the rows are cut and with whom they are added up; all of them at once if not given.

    Example:
        >>> c = solve_shift(np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4))
        >>> round(float(sigmoid(c)), 6)
        0.25
    """
    shards = shards or Shards.whole(logits.shape[0])

    def predicted_and_slope(rows: slice) -> list[Floats | float]:
        p = sigmoid(logits[rows] + shift)
        expected = weights_of(weights, rows, logits.shape[0]) * p
        return [float(np.sum(expected)), float(np.sum(expected * (1.0 - p)))]

    def observed(rows: slice) -> list[Floats | float]:
        return [float(np.sum(weights_of(weights, rows, logits.shape[0]) * labels[rows]))]

    positives = float(shards.add_up(observed)[0])
    low, high, shift = -40.0, 40.0, 0.0
    for _ in range(100):
        predicted, slope = (float(total) for total in shards.add_up(predicted_and_slope))
        gap = predicted - positives
        low, high = (low, shift) if gap > 0.0 else (shift, high)
        step = gap / slope if slope > 0.0 else np.inf
        proposal = shift - step
        following = proposal if low < proposal < high else 0.5 * (low + high)
        if abs(following - shift) < 1e-12:
            break
        shift = following
    return shift
