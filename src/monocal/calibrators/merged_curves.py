"""Monotone curves that are merged day by day: blocks with weights, older ones counting less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats, log_loss, logit
from monocal.wide.filter import EVIDENCE_KEPT

DISCOUNTS = np.array([1.0, 0.9, 0.7, 0.4, 0.0])
"""Shares of the earlier weight that count beside the newest rows: candidates that run side by side."""

Curve = tuple[Floats, Floats, Floats]
"""Knots, rates there, and how much weight stands behind each."""

Solve = Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]


def weights_of_knots(knots: Floats, rates: Floats, scores: Floats, weights: Floats) -> Floats:
    """Returns the weight of the rows behind each knot; a level stretch shares its rows between its two ends.

    Example:
        >>> scores = np.array([0.1, 0.2, 0.3, 0.6])
        >>> weights_of_knots(np.array([0.1, 0.3, 0.6]), np.array([0.2, 0.2, 0.9]), scores, np.ones(4)).tolist()
        [1.5, 1.5, 1.0]
    """
    place = np.clip(np.searchsorted(knots, scores, side="right") - 1, 0, knots.size - 1)
    found: Any = np.bincount(place, weights, knots.size)
    same = np.flatnonzero(rates[1:] == rates[:-1])
    both = 0.5 * (found[same] + found[same + 1])
    found[same], found[same + 1] = both, both
    result: Floats = found
    return result


def merge_day(
    state: dict[str, NDArray[Any]],
    fitted: Curve,
    today: Curve,
    rows: tuple[Floats, Floats, Floats],
    solve: Solve,
    predict: Callable[[Floats, Floats, Floats], Floats],
) -> tuple[Curve, dict[str, NDArray[Any]], float]:
    """Returns the curve after a day, what is kept for the next, and the discount in use.

    Every candidate is charged the log-loss of its curve of yesterday on today's rows, then takes today's blocks beside
    its own, discounted ones. The one with the least loss so far gives the curve.

    Arguments:
        state: What the last merge kept; the curve in use if there was none.
        fitted: The curve in use.
        today: The curve of today's rows alone.
        rows: Today's scores, labels and weights.
        solve: The monotone curve of weighted points: knots and rates.
        predict: Rates at scores, from knots and rates.
    """
    scores, labels, weights = rows
    curves, losses = _candidates(state, fitted)
    losses = EVIDENCE_KEPT * losses
    following: list[Curve] = []
    for number, (knots, rates, mass) in enumerate(curves):
        losses[number] += weights.sum() * log_loss(logit(predict(scores, knots, rates)), labels, weights)
        kept = mass * DISCOUNTS[number]
        x, y, w = (np.concatenate(pair) for pair in zip((knots, rates, kept), today, strict=True))
        new_knots, new_rates = solve(x[w > 0.0], y[w > 0.0], w[w > 0.0])
        following.append((new_knots, new_rates, weights_of_knots(new_knots, new_rates, x, w)))
    best = int(np.argmin(losses))
    arrays = {
        name: np.concatenate(parts)
        for name, parts in zip(("knots", "rates", "weights"), zip(*following, strict=True), strict=True)
    }
    arrays["sizes"] = np.array([knots.size for knots, _, _ in following])
    arrays["losses"] = losses
    return following[best], arrays, float(DISCOUNTS[best])


def _candidates(state: dict[str, NDArray[Any]], fitted: Curve) -> tuple[list[Curve], Floats]:
    if "sizes" not in state:
        return [fitted] * DISCOUNTS.size, np.zeros(DISCOUNTS.size)
    ends = np.cumsum(state["sizes"])[:-1]
    parts = [np.split(state[name], ends) for name in ("knots", "rates", "weights")]
    return [(x, y, w) for x, y, w in zip(*parts, strict=True)], state["losses"]
