"""Logistic regression with a handful of parameters and linear inequality constraints, solved exactly."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from monocal.core.dataset import Block, Dataset
from monocal.core.errors import MonocalWarning
from monocal.core.scores import Floats, log_losses, sigmoid

Design = Callable[[Block], Floats]
"""The columns of a block of rows, `(n, k)` with a small k."""

_RIDGE = 1e-14

MOST_STEPS = 100
"""A fit that needs more Newton steps warns with its last gradient."""


def score_and_one(block: Block) -> Floats:
    """The design of slope and intercept."""
    z = block.z
    return np.column_stack([z, np.ones_like(z)])


def solve_logistic(
    data: Dataset,
    design: Design,
    *,
    l2: Floats | None = None,
    constraints: Floats | None = None,
    offset: Floats | None = None,
) -> Floats:
    r"""Minimises :math:`\sum_i w_i\,\mathrm{NLL}(\sigma(x_i\theta + o_i), y_i) + \tfrac12\sum_k \lambda_k\theta_k^2`
    subject to :math:`C\theta \ge 0`.

    The problem is convex and there are at most two constraints, so the optimum is found by trying each set of
    active constraints: Newton's method in the subspace where they hold with equality, then the best feasible one.
    A ridge of 1e-14 per unit of weight keeps separable data finite.

    Arguments:
        data: The rows; labels may be smoothed, in [0, 1].
        design: Makes the columns x of the rows that are asked for.
        l2: Penalty per parameter on the scale of the summed loss; None means none.
        constraints: Rows `(m, k)` with `constraints @ theta >= 0`.
        offset: o, a logit per row that stays as it is; None means 0.

    Example:
        Three rows in four positive: the intercept alone is ln 3.

        >>> rows = Dataset(np.zeros(4), np.array([0.0, 1.0, 1.0, 1.0]))
        >>> theta = solve_logistic(rows, lambda block: np.ones((len(block), 1)))
        >>> bool(np.isclose(theta[0], np.log(3.0)))
        True
    """
    k = design(Block(data, slice(0, 0))).shape[1]
    total = data.sum(lambda block: [float(block.w.sum())])[0]
    penalty = np.full(k, _RIDGE * float(total))
    if l2 is not None:
        penalty = penalty + l2
    wanted = np.zeros((0, k)) if constraints is None else np.asarray(constraints, dtype=np.float64)
    best: Floats | None = None
    best_loss = np.inf
    for n_active in range(wanted.shape[0] + 1):
        for active in itertools.combinations(range(wanted.shape[0]), n_active):
            basis = _null_space(wanted[list(active)], k)
            inside, loss = _newton(data, _Problem(design, basis, offset), basis.T * penalty @ basis)
            theta = basis @ inside
            slack = wanted @ theta
            if np.all(slack >= -1e-9 * (1.0 + np.abs(wanted) @ np.abs(theta))):
                loss += 0.5 * float(penalty @ theta**2)
                if loss < best_loss:
                    best, best_loss = theta, loss
        if best is not None and n_active == 0:
            break
    assert best is not None  # with every constraint active only feasible points remain
    return best


class _Problem(NamedTuple):
    """Rows' loss within the subspace where some constraints hold with equality."""

    design: Design
    basis: Floats
    offset: Floats | None

    def derivatives(self, theta: Floats, block: Block) -> list[Floats | float]:
        """Returns the loss of some rows, its gradient and its second derivative."""
        # without an active constraint the basis changes nothing
        columns = self.design(block)
        inside = columns if self.basis.shape[0] == theta.size else columns @ self.basis
        given = np.zeros(inside.shape[0]) if self.offset is None else block.of(self.offset)
        scores, labels, weights = given + inside @ theta, block.y, block.w
        p = sigmoid(scores)
        curvature = weights * np.maximum(p * (1.0 - p), 1e-12)
        loss = float(np.sum(weights * log_losses(scores, labels)))
        return [loss, inside.T @ (weights * (p - labels)), (inside.T * curvature) @ inside]


def _newton(data: Dataset, problem: _Problem, penalty: Floats) -> tuple[Floats, float]:
    """Returns the best parameters within the subspace, and the rows' loss there."""
    theta = np.zeros(problem.basis.shape[1])
    loss, gradient, hessian = data.sum(partial(problem.derivatives, theta))
    if theta.size == 0:
        return theta, float(loss)
    penalised = float(loss)
    last_decrement = np.inf
    for _ in range(MOST_STEPS):
        gradient = gradient + penalty @ theta
        step = np.linalg.lstsq(hessian + penalty, gradient, rcond=None)[0]
        decrement = float(gradient @ step)
        # This near the optimum a Newton step squares the distance; where it does not, only rounding is left, as along
        # a direction that rows of one constant score do not determine.
        is_rounding = decrement < 1e-12 * (1.0 + abs(penalised)) and decrement > 0.25 * last_decrement
        if decrement <= 1e-18 * (1.0 + abs(penalised)) or is_rounding:
            return theta, float(loss)
        last_decrement = decrement
        scale = 1.0
        while scale > 1e-10:
            trial = theta - scale * step
            found = data.sum(partial(problem.derivatives, trial))
            following = float(found[0]) + 0.5 * float(trial @ penalty @ trial)
            if following <= penalised - 0.25 * scale * decrement or decrement < 1e-12 * (1.0 + abs(penalised)):
                break
            scale *= 0.5
        else:
            return theta, float(loss)
        theta, penalised = trial, following
        loss, gradient, hessian = found
    warnings.warn(
        f"logistic fit stopped after {MOST_STEPS} Newton steps with gradient {np.abs(gradient).max():.2e}",
        MonocalWarning,
        stacklevel=4,
    )
    return theta, float(loss)


def _null_space(rows: Floats, k: int) -> Floats:
    if rows.shape[0] == 0:
        return np.eye(k)
    _, singular, right = np.linalg.svd(rows)
    rank = int(np.sum(singular > 1e-12 * singular[0]))
    basis: Floats = right[rank:].T
    return basis


# One shift of all rows

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
