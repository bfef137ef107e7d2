"""A fitted map as one function of logits and field ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from monocal.calibrators.statistical.wide_solver import add_shifts
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.neural.arrays.context_table import Weights

Curve = Callable[[Floats, Any], Floats]
"""Calibrated logits `(n,)` from logits `(n,)` and context rows, on numpy arrays."""

FittedMap = Callable[[Floats, Ids | None], Floats]
"""Calibrated logits `(n,)` from the ranker's logits and field ids."""


def curve_weights(weights: Weights) -> Weights:
    """Returns the arrays of the curve alone, under the names of its torch module."""
    start = "curve."
    return {name[len(start) :]: value for name, value in weights.items() if name.startswith(start)}


def believed_share(weights: Weights) -> float:
    """Returns the share to which the curve is believed: 1 unless the fit said otherwise."""
    return float(weights["mix"][0]) if "mix" in weights else 1.0


def by_arrays(weights: Weights, curve: Curve, context: Callable[[Ids], Any] | None) -> FittedMap:
    r"""Joins affine start, context, curve and shifts.

    A curve believed to a share a is mixed with the straight line it started from, :math:`(1 - a) t + a f(t)`: both
    increase in t, and so does their sum after rounding.

    Shifts are added to each other first and to the curve last: for a fixed feature row that is one constant, and
    adding a constant keeps the curve's order after rounding.
    """
    slope, intercept = (float(number) for number in weights["affine"])
    share = believed_share(weights)

    def calibrated(logits: Floats, features: Ids | None) -> Floats:
        ids = None if features is None else np.asarray(features)
        start: Floats = slope * logits + intercept
        values = start
        if share > 0.0:
            values = curve(start, None if context is None or ids is None else context(ids))
        if share < 1.0:
            values = (1.0 - share) * start + share * values
        if "wide.shifts" not in weights or ids is None:
            return values
        base = np.full(logits.shape[0], weights["wide.intercept"][0])
        return values + add_shifts(base, ids, weights["wide.shifts"], weights["wide.offsets"])

    return calibrated
