"""Logistic regression on a logit and one indicator per (field, value), without ever building the indicators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from monocal.core.log_loss import log_losses
from monocal.core.samples import Ids
from monocal.core.spaces import Floats, sigmoid

_BLOCK_ROWS = 1 << 18

COMPILED_FROM_CELLS = 500_000
"""Rows times fields from which the compiled loop, if numba is there, is worth loading."""


@dataclass(frozen=True)
class WideParameters:
    """Slope, intercept, and the shifts of all fields in one array; field f starts at `offsets[f]`.

    Attributes:
        slope: a ≥ 0.
        intercept: c.
        shifts: One per id, field after field; 0 for id 0, the unseen value.
        offsets: Where each field starts; the last entry is the total.
        curvature: Of every shift's loss, without the penalty, where the search started.
    """

    slope: float
    intercept: float
    shifts: Floats
    offsets: NDArray[np.int64]
    curvature: Floats


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
    l2: float | Floats,
    tolerance: float,
    max_iterations: int,
    slope_is_free: bool = True,
    start: WideParameters | None = None,
) -> WideParameters:
    r"""Minimises the logistic loss of :math:`a z + c + \sum_f \delta_{f, x_f}` plus
    :math:`\sum_f \tfrac{\lambda_f}{2}\|\delta_f\|^2`.

    L-BFGS on variables scaled by the square root of the diagonal curvature at the start, so that frequent and
    rare values converge together; the slope is kept non-negative. Memory beside the rows: a few tables.

    Arguments:
        logits: z, one per row.
        labels: 0 or 1 per row.
        weights: How often each row counts.
        features: Field ids `(n, F)`.
        sizes: How many ids each field has.
        l2: The penalty λ, one for all fields or one per field.
        tolerance: Stops when the loss falls by less than this share.
        max_iterations: L-BFGS steps allowed.
        slope_is_free: If false, the slope stays where it starts.
        start: Where to start; slope 1 and no shifts if not given.
    """
    offsets = field_offsets(sizes)
    n_shifts = int(offsets[-1])
    penalty = np.repeat(np.broadcast_to(np.asarray(l2, dtype=np.float64), sizes.shape), sizes)
    theta = np.zeros(n_shifts + 2)
    if start is None:
        rate = float(np.average(labels, weights=weights))
        theta[n_shifts] = 1.0
        theta[n_shifts + 1] = np.log(rate / (1.0 - rate)) - _logit_of_mean(sigmoid(logits), weights)
    else:
        theta[:n_shifts] = start.shifts
        theta[n_shifts:] = start.slope, start.intercept
    curvature = _curvature(logits, weights, features, offsets, theta)
    diagonal = curvature.copy()
    diagonal[:n_shifts] += penalty
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-9))
    add_rows = _loss_of_rows(features.shape[0] * features.shape[1])
    unseen = offsets[:-1]

    def loss_and_gradient(scaled: Floats) -> tuple[float, Floats]:
        at = scaled * scale
        gradient = np.zeros_like(at)
        gradient[:n_shifts] = penalty * at[:n_shifts]
        loss = 0.5 * float(gradient[:n_shifts] @ at[:n_shifts])
        for first in range(0, logits.shape[0], _BLOCK_ROWS):
            rows = slice(first, first + _BLOCK_ROWS)
            ids = np.ascontiguousarray(features[rows])
            loss += add_rows(logits[rows], labels[rows], weights[rows], ids, offsets, at, gradient)
        gradient[unseen] = 0.0
        if not slope_is_free:
            gradient[n_shifts] = 0.0
        return loss, gradient * scale

    found = minimize(
        loss_and_gradient,
        theta / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * n_shifts + [(0.0, None), (None, None)],
        options={"maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": tolerance, "gtol": 0.0, "maxcor": 10},
    )
    theta = found.x * scale
    return WideParameters(
        float(theta[n_shifts]), float(theta[n_shifts + 1]), theta[:n_shifts], offsets, curvature[:n_shifts]
    )


def _curvature(logits: Floats, weights: Floats, features: Ids, offsets: NDArray[np.int64], theta: Floats) -> Floats:
    """Returns the diagonal of the loss's second derivative."""
    n_shifts = int(offsets[-1])
    result = np.zeros(n_shifts + 2)
    for first in range(0, logits.shape[0], _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        ids = np.asarray(features[rows])
        z = logits[rows]
        p = sigmoid(add_shifts(theta[n_shifts] * z + theta[n_shifts + 1], ids, theta[:n_shifts], offsets))
        bend = weights[rows] * p * (1.0 - p)
        for field in range(ids.shape[1]):
            here = slice(offsets[field], offsets[field + 1])
            result[here] += np.bincount(ids[:, field], bend, here.stop - here.start)
        result[n_shifts] += float(bend @ z**2)
        result[n_shifts + 1] += float(bend.sum())
    return result


def _loss_of_rows(n_cells: int) -> Callable[..., float]:
    if n_cells < COMPILED_FROM_CELLS or find_spec("numba") is None:
        return add_loss_and_gradient
    from monocal.kernels.wide_loss import add_loss_and_gradient as compiled

    quick: Callable[..., float] = compiled
    return quick


def add_loss_and_gradient(
    logits: Floats,
    labels: Floats,
    weights: Floats,
    features: Ids,
    offsets: NDArray[np.int64],
    theta: Floats,
    gradient: NDArray[Any],
) -> float:
    """What `monocal.kernels.wide_loss` does, by numpy."""
    n_shifts = theta.shape[0] - 2
    z = add_shifts(theta[n_shifts] * logits + theta[n_shifts + 1], features, theta[:n_shifts], offsets)
    residual = weights * (sigmoid(z) - labels)
    for field in range(features.shape[1]):
        here = slice(offsets[field], offsets[field + 1])
        gradient[here] += np.bincount(features[:, field], residual, here.stop - here.start)
    gradient[n_shifts] += float(residual @ logits)
    gradient[n_shifts + 1] += float(residual.sum())
    return float(np.sum(weights * log_losses(z, labels)))


def _logit_of_mean(p: Floats, weights: Floats) -> float:
    mean = float(np.clip(np.average(p, weights=weights), 1e-9, 1.0 - 1e-9))
    return float(np.log(mean / (1.0 - mean)))
