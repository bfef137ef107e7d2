"""Penalties learned per field, and the compiled loss of the wide part."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.compiled.wide import add_loss_and_gradient as compiled
from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema
from monocal.wide import solver as wide_solver
from monocal.wide.solver import LARGEST_PENALTY, Search, add_loss_and_gradient, solve_wide, solve_with_penalties


def drawn(scales, n_rows=40_000, n_values=50, seed=0):
    """Rows whose true logit is -1 plus one normal shift per value, with the given standard deviation per field."""
    random = np.random.default_rng(seed)
    sizes = np.full(len(scales), n_values + 1, dtype=np.int64)
    features = random.integers(1, n_values + 1, (n_rows, len(scales))).astype(np.int32)
    shifts = [np.concatenate([[0.0], scale * random.normal(size=n_values)]) for scale in scales]
    truth = -1.0 + sum(shift[features[:, f]] for f, shift in enumerate(shifts))
    labels = (random.random(n_rows) < 1.0 / (1.0 + np.exp(-truth))).astype(np.float64)
    return Dataset(np.zeros(n_rows), labels, ids=features, schema=FieldSchema.of(sizes)), truth


def test_learned_penalty_is_the_inverse_variance_of_the_true_shifts():
    rows, _ = drawn((0.8, 0.3), n_rows=200_000, n_values=200)
    _, penalties = solve_with_penalties(rows, "auto", Search())
    assert penalties == pytest.approx([1 / 0.8**2, 1 / 0.3**2], rel=0.25)


def test_a_field_without_effect_is_shrunk_away():
    rows, _ = drawn((0.8, 0.0), n_values=400)
    found, penalties = solve_with_penalties(rows, "auto", Search())
    assert penalties[1] > 30 * penalties[0]
    assert penalties[1] <= LARGEST_PENALTY
    field = found.shifts[rows.fields.offsets[1] :]
    assert np.std(field) < 0.05


def test_learned_penalties_come_closer_to_the_truth_than_a_fixed_one():
    rows, truth = drawn((0.9, 0.0, 0.05), n_values=300)
    errors = {}
    for name, l2 in (("auto", "auto"), ("fixed", 10.0)):
        p = calibrator("wide_logistic", l2=l2).fit_data(rows).predict_data(rows)
        errors[name] = np.mean(np.abs(p - 1.0 / (1.0 + np.exp(-truth))))
    assert errors["auto"] < 0.8 * errors["fixed"]


def test_compiled_loss_equals_numpy():
    random = np.random.default_rng(1)
    rows, _ = drawn((0.5, 0.5, 0.5), n_rows=3000, n_values=20)
    logits, labels, weights, features = rows.z, rows.labels, random.random(3000), rows.ids
    offsets, columns = rows.fields.offsets, np.arange(3)
    theta = random.normal(size=int(offsets[-1]) + 2) * 3.0
    by_numpy, by_numba = np.zeros_like(theta), np.zeros_like(theta)
    first = add_loss_and_gradient(logits + 2, labels, weights, features, columns, offsets, theta, by_numpy)
    second = compiled(logits + 2, labels, weights, features, columns, offsets, theta, by_numba)
    assert second == pytest.approx(first, rel=1e-12)
    np.testing.assert_allclose(by_numba, by_numpy, rtol=1e-9, atol=1e-9)


def test_gradient_is_the_slope_of_the_loss():
    data, _ = drawn((0.5, 0.5), n_rows=500, n_values=5)
    offsets, columns = data.fields.offsets, np.arange(2)
    theta = np.random.default_rng(2).normal(size=int(offsets[-1]) + 2)
    gradient = np.zeros_like(theta)
    rows = data.z + np.linspace(-2, 2, 500), data.labels, data.weights, data.ids, columns
    add_loss_and_gradient(*rows, offsets, theta, gradient)
    for place in (1, 7, theta.size - 2, theta.size - 1):
        step = np.zeros_like(theta)
        step[place] = 1e-5
        up, down = (
            add_loss_and_gradient(*rows, offsets, theta + sign * step, np.zeros_like(theta)) for sign in (1, -1)
        )
        assert gradient[place] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def test_the_solution_does_not_depend_on_the_loop(monkeypatch):
    rows, _ = drawn((0.6, 0.2), n_rows=20_000)
    answers = []
    for least in (0, 10**12):
        monkeypatch.setattr(wide_solver, "COMPILED_FROM_CELLS", least)
        answers.append(solve_wide(rows, 10.0, Search(1e-12, 300)).shifts)
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-7)
