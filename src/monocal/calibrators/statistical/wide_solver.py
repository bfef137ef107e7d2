"""Logistic regression on a logit and one indicator per (field, value), without ever building the indicators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from monocal.core.samples import Ids
from monocal.core.spaces import Floats, sigmoid

_BLOCK_ROWS = 1 << 18


@dataclass(frozen=True)
class WideParameters:
    """Slope, intercept, and the shifts of all fields in one array; field f starts at `offsets[f]`."""

    slope: float
    intercept: float
    shifts: Floats
    offsets: NDArray[np.int64]


def field_offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns where each field's ids start in one concatenated table; the last entry is the total."""
    return np.concatenate([[0], np.cumsum(sizes)])


def add_shifts(logits: Floats, features: Ids, shifts: Floats, offsets: NDArray[np.int64]) -> Floats:
    """Returns `logits` plus every row's shifts; ids beyond a field's table count as unseen (id 0, shift 0)."""
    total = np.array(logits, dtype=np.float64)
    for field in range(features.shape[1]):
        start, end = offsets[field], offsets[field + 1]
        ids = features[:, field]
        total += shifts[start + np.where(ids < end - start, ids, 0)]
    return total


def solve_wide(
    logits: Floats,
    labels: Floats,
    weights: Floats,
    features: Ids,
    sizes: NDArray[np.int64],
    *,
    l2: float,
    tolerance: float,
    max_iterations: int,
    slope_is_free: bool = True,
    start: Floats | None = None,
) -> WideParameters:
    r"""Minimises the logistic loss of :math:`a z + c + \sum_f \delta_{f, x_f}` plus :math:`\tfrac{l_2}{2}\|\delta\|^2`.

    L-BFGS on variables scaled by the square root of the diagonal curvature at the start, so that frequent and
    rare values converge together; the slope is kept non-negative. Memory beside the rows: a few tables.

    Arguments:
        logits: z, one per row.
        labels: 0 or 1 per row.
        weights: How often each row counts.
        features: Field ids `(n, F)`.
        sizes: How many ids each field has.
        l2: The penalty.
        tolerance: Stops when the loss falls by less than this share.
        max_iterations: L-BFGS steps allowed.
        slope_is_free: If false, a = 1.
        start: Shifts to start from; zeros if not given.
    """
    offsets = field_offsets(sizes)
    n_shifts = int(offsets[-1])
    rate = float(np.average(labels, weights=weights))
    p0 = sigmoid(logits)
    curvature = weights * p0 * (1.0 - p0)
    diagonal = np.empty(n_shifts + 2)
    for field in range(features.shape[1]):
        diagonal[offsets[field] : offsets[field + 1]] = np.bincount(features[:, field], curvature, sizes[field])
    diagonal[:n_shifts] += l2
    diagonal[n_shifts] = max(float(curvature @ logits**2), 1e-9)
    diagonal[n_shifts + 1] = max(float(curvature.sum()), 1e-9)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-12))
    unseen = offsets[:-1]

    def loss_and_gradient(scaled: Floats) -> tuple[float, Floats]:
        theta = scaled * scale
        shifts = theta[:n_shifts]
        slope, intercept = theta[n_shifts], theta[n_shifts + 1]
        loss = 0.5 * l2 * float(shifts @ shifts)
        gradient = np.zeros_like(theta)
        gradient[:n_shifts] = l2 * shifts
        for start in range(0, logits.shape[0], _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            ids = np.asarray(features[rows])
            z = add_shifts(slope * logits[rows] + intercept, ids, shifts, offsets)
            y, w = labels[rows], weights[rows]
            loss += float(np.sum(w * (np.logaddexp(0.0, z) - y * z)))
            residual = w * (sigmoid(z) - y)
            for field in range(ids.shape[1]):
                here = slice(offsets[field], offsets[field + 1])
                gradient[here] += np.bincount(ids[:, field], residual, sizes[field])
            gradient[n_shifts] += float(residual @ logits[rows])
            gradient[n_shifts + 1] += float(residual.sum())
        gradient[unseen] = 0.0
        if not slope_is_free:
            gradient[n_shifts] = 0.0
        return loss, gradient * scale

    start_at = np.zeros(n_shifts + 2)
    start_at[n_shifts] = 1.0 / scale[n_shifts]
    if start is None:
        start_at[n_shifts + 1] = (np.log(rate / (1.0 - rate)) - _logit_of_mean(p0, weights)) / scale[n_shifts + 1]
    else:
        start_at[:n_shifts] = start / scale[:n_shifts]
    bounds = [(None, None)] * n_shifts + [(0.0, None), (None, None)]
    found = minimize(
        loss_and_gradient,
        start_at,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": tolerance, "gtol": 0.0, "maxcor": 10},
    )
    theta = found.x * scale
    return WideParameters(float(theta[n_shifts]), float(theta[n_shifts + 1]), theta[:n_shifts], offsets)


def _logit_of_mean(p: Floats, weights: Floats) -> float:
    mean = float(np.clip(np.average(p, weights=weights), 1e-9, 1.0 - 1e-9))
    return float(np.log(mean / (1.0 - mean)))
