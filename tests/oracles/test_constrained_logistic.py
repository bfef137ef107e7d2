"""The logistic fit under constraints, against a general solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

from monocal.calibrators.gauss_gamma import Gamma
from monocal.calibrators.logistic import solve_logistic
from monocal.core.dataset import Dataset
from monocal.core.scores import log_losses


def best_loss(design, targets, weights, l2, constraints, offset):
    """Returns the least penalised loss that a solver which knows nothing of logistic regression finds."""

    def loss(theta):
        return float(weights @ log_losses(offset + design @ theta, targets)) + 0.5 * float(l2 @ theta**2)

    limits = {"type": "ineq", "fun": lambda theta: constraints @ theta, "jac": lambda theta: constraints}
    starts = np.random.default_rng(0).normal(size=(4, design.shape[1]))
    options = {"maxiter": 500, "ftol": 1e-13}
    found = [minimize(loss, start, constraints=limits, method="SLSQP", options=options) for start in starts]
    return loss, min(result.fun for result in found if (constraints @ result.x > -1e-7).all())


@pytest.mark.parametrize("seed", [1, 3, 4, 22, 60, 80])  # several sets of active constraints are feasible
def test_of_all_allowed_parameters_the_best_are_found(seed):
    rng = np.random.default_rng(seed)
    design = np.column_stack([rng.normal(size=(200, 2)), np.ones(200)])
    # the signs that the rows ask for are those that the constraints forbid
    offset = rng.normal(size=200)
    targets = (rng.random(200) < 1 / (1 + np.exp(2.0 * design[:, 0] + 0.7 * design[:, 1] - offset))).astype(float)
    weights, l2 = rng.exponential(size=200), 50.0 * rng.exponential(size=3)
    constraints = rng.normal(size=(2, 3)) + np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.5]])
    rows = Dataset(offset, targets, weights)
    theta = solve_logistic(rows, lambda block: block.of(design), l2=l2, constraints=constraints, offset=offset)
    loss, least = best_loss(design, targets, weights, l2, constraints, offset)
    assert (constraints @ theta >= -1e-6).all()
    assert loss(theta) == pytest.approx(least, abs=1e-4)


@pytest.mark.parametrize("end", ["low", "high"])
def test_gamma_is_the_best_curve_that_falls_nowhere(end):
    """The rows ask for a curve that falls at one end of its range; flat there is the best that is allowed."""
    r = np.linspace(0.01, 25.0, 400)
    wish = 3.0 * np.log(r / 12.0) - 0.15 * r if end == "high" else -0.05 * np.log(r) + 0.02 * r
    p = 1 / (1 + np.exp(-wish))
    logits, targets = np.tile(r - 13.0, 2), np.repeat([1.0, 0.0], 400)
    weights = 100.0 * np.concatenate([p, 1.0 - p])
    fitted = Gamma(l2=1.0).fit(logits, targets, weights=weights, scores_are="logit")
    slopes = [fitted.a_ / x + fitted.b_ for x in (1e-4, 26.0)]
    assert slopes[0 if end == "low" else 1] == pytest.approx(0.0, abs=1e-9) == min(slopes)
    design = np.column_stack([np.log(np.tile(r, 2)), np.tile(r, 2), np.ones(800)])
    constraints = np.array([[1.0, 1e-4, 0.0], [1.0, 26.0, 0.0]])
    loss, least = best_loss(design, targets, weights, np.array([1.0, 1.0, 0.0]), constraints, np.zeros(800))
    assert loss(np.array([fitted.a_, fitted.b_, fitted.c_])) == pytest.approx(least, rel=1e-7)
