"""The search for a line whose slope and level depend on the values of fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from monocal.calibrators.logistic import score_and_one, solve_logistic
from monocal.core.dataset import Dataset
from monocal.core.fields import Ids
from monocal.core.scores import Floats, log_losses, sigmoid
from monocal.wide.solver import CommonDirections, loop_for

SLOPES = (0.01, 100.0)
"""The common slope stays inside, so that it is never 0, even where higher scores go with fewer positives."""

_LOG_FACTOR, _SHIFT = 3.0, 20.0
"""One field value changes the slope by at most a factor e³ and the logit by at most 20, also without a penalty."""


def solve_lines(
    z: Floats,
    labels: Floats,
    weights: Floats,
    context: Ids,
    offsets: NDArray[np.int64],
    *,
    l2: float,
    tolerance: float,
    max_iterations: int,
) -> Floats:
    r"""Minimises the logistic loss of :math:`e^{a} z + b` plus
    :math:`\tfrac{\lambda}{2}(\|\alpha\|^2 + \|\beta\|^2)`, where a and b add up over the fields.

    First without limits, in the variables of `CommonDirections`, which takes a tenth of the passes over the rows. An
    optimum inside the limits is the answer; from any other the search goes on within them.

    Arguments:
        z: Centred logits.
        labels: 0 or 1 per row.
        weights: How often each row counts.
        context: Field ids `(n, F)`.
        offsets: Where each field's values start; the last entry is the total.
        l2: The penalty λ.
        tolerance: Stops when the loss falls by less than this share.
        max_iterations: L-BFGS steps allowed.

    Returns:
        All α, all β (0 for id 0, the unseen value), then the log of the common slope and the common level.
    """
    n_values = int(offsets[-1])
    slope, level = _common_line(z, labels, weights)
    start = np.zeros(2 * n_values + 2)
    start[-2:] = np.log(slope), level
    if not n_values:
        return start
    rows = _Rows(z, labels, weights, context, offsets)
    penalty = np.full(start.shape, l2)
    penalty[-2:] = 0.0
    low, high = _limits(n_values)
    options = {"maxiter": max_iterations, "maxfun": 2 * max_iterations, "ftol": tolerance, "gtol": 0.0, "maxcor": 20}
    found = _free_search(rows, start, penalty, options)
    if np.isfinite(found).all() and np.all((found >= low) & (found <= high)):
        return found
    return _search_within(rows, start, penalty, low, high, options)


class _Rows:
    """The loss of log-factors, shifts, log-slope and level, in this order, on given rows."""

    def __init__(self, z: Floats, y: Floats, w: Floats, context: Ids, offsets: NDArray[np.int64]) -> None:
        self.z, self.y, self.w = z, y, w
        self.context, self.offsets = np.ascontiguousarray(context), offsets
        self.n_values = int(offsets[-1])
        self.held = np.concatenate([offsets[:-1], self.n_values + offsets[:-1]])
        self._add = loop_for(self.context.size, add_line_loss_and_gradient, "monocal.lab.reconstructions.mlplatt_loop")

    def loss_and_gradient(self, theta: Floats, penalty: Floats) -> tuple[float, Floats]:
        gradient = penalty * theta
        loss = 0.5 * float(gradient @ theta)
        loss += self._add(self.z, self.y, self.w, self.context, self.offsets, theta, gradient)
        gradient[self.held] = 0.0
        return loss, gradient

    def curvature(self, theta: Floats) -> tuple[Floats, Floats]:
        """The diagonal of the second derivative without the term that may be negative, and its common directions."""
        slopes, levels = _slopes_and_levels(self.context, self.offsets, theta)
        steep = slopes * self.z
        p = sigmoid(steep + levels)
        curvature = self.w * p * (1.0 - p)
        diagonal = np.zeros_like(theta)
        _gather(self.context, self.offsets, curvature * steep**2, curvature, diagonal)
        known = self.context > 0
        columns = [known * steep[:, None], known, steep[:, None], np.ones((steep.size, 1))]
        common = np.concatenate(columns, axis=1)
        return diagonal, (common.T * curvature) @ common


def add_line_loss_and_gradient(
    logits: Floats,
    labels: Floats,
    weights: Floats,
    features: Ids,
    offsets: NDArray[np.int64],
    theta: Floats,
    gradient: NDArray[Any],
) -> float:
    """What `monocal.lab.reconstructions.mlplatt_loop` does, by numpy."""
    slopes, levels = _slopes_and_levels(features, offsets, theta)
    steep = slopes * logits
    z = steep + levels
    residual = weights * (sigmoid(z) - labels)
    _gather(features, offsets, residual * steep, residual, gradient)
    return float(weights @ log_losses(z, labels))


def _slopes_and_levels(context: Ids, offsets: NDArray[np.int64], theta: Floats) -> tuple[Floats, Floats]:
    n_values = int(offsets[-1])
    log_slopes, levels = np.full(context.shape[0], theta[-2]), np.full(context.shape[0], theta[-1])
    for field, first in enumerate(offsets[:-1]):
        places = first + context[:, field]
        log_slopes += theta[places]
        levels += theta[n_values + places]
    return np.exp(log_slopes), levels


def _gather(context: Ids, offsets: NDArray[np.int64], of_slope: Floats, of_level: Floats, out: Floats) -> None:
    n_values = int(offsets[-1])
    for field, first in enumerate(offsets[:-1]):
        size = int(offsets[field + 1] - first)
        out[first : first + size] += np.bincount(context[:, field], of_slope, size)
        out[n_values + first : n_values + first + size] += np.bincount(context[:, field], of_level, size)
    out[-2] += of_slope.sum()
    out[-1] += of_level.sum()


def _free_search(rows: _Rows, start: Floats, penalty: Floats, options: dict[str, Any]) -> Floats:
    curvature, together = rows.curvature(start)
    places = np.concatenate([rows.offsets[:-1], rows.n_values + rows.offsets])
    scaling = CommonDirections(curvature, together, penalty[:-2], places, slope_is_free=True)

    def loss_and_gradient(scaled: Floats) -> tuple[float, Floats]:
        loss, gradient = rows.loss_and_gradient(scaling.parameters(scaled), penalty)
        return loss, scaling.gradient(gradient)

    with np.errstate(over="ignore", invalid="ignore"):  # without a penalty a value may run away; limits follow
        found = minimize(loss_and_gradient, scaling.scaled(start), jac=True, method="L-BFGS-B", options=options)
    theta = scaling.parameters(found.x)
    theta[rows.held] = 0.0
    return theta


def _search_within(
    rows: _Rows, start: Floats, penalty: Floats, low: Floats, high: Floats, options: dict[str, Any]
) -> Floats:
    curvature = rows.curvature(start)[0] + penalty
    # parameters on the scale of their own uncertainty converge together
    scale = 1.0 / np.sqrt(np.maximum(curvature, 1e-6 * float(rows.w.sum())))

    def loss_and_gradient(scaled: Floats) -> tuple[float, Floats]:
        loss, gradient = rows.loss_and_gradient(scaled * scale, penalty)
        return loss, gradient * scale

    found = minimize(
        loss_and_gradient,
        start / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([low / scale, high / scale]),
        options=options,
    )
    theta: Floats = found.x * scale
    return theta


def _limits(n_values: int) -> tuple[Floats, Floats]:
    high = np.concatenate([np.full(n_values, _LOG_FACTOR), np.full(n_values, _SHIFT), [np.log(SLOPES[1]), np.inf]])
    low = -high
    low[-2] = np.log(SLOPES[0])
    return low, high


def _common_line(z: Floats, y: Floats, w: Floats) -> tuple[float, float]:
    """Slope and intercept of Platt scaling, the slope inside its limits and the intercept the best beside it."""
    rows = Dataset(z, y, w)
    slope, _ = solve_logistic(rows, score_and_one, constraints=np.array([[1.0, 0.0]]))
    kept = float(np.clip(slope, *SLOPES))
    return kept, float(solve_logistic(rows, lambda block: np.ones((len(block), 1)), offset=kept * z)[0])
