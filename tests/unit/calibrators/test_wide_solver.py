"""The wide solver reaches its optimum in few passes, keeps the slope at 0 or above, and centres the shifts."""

from dataclasses import replace

import numpy as np
import pytest

from monocal.calibrators.logistic import solve_logistic
from monocal.calibrators.statistical.wide_solver import field_offsets, recentred, solve_wide
from monocal.ops.numpy_ops import add_shifts

PENALTY = 10.0


def skewed(n_rows=30_000, sizes=(400, 60, 24, 5), slope=0.8, unseen=0.0, seed=0):
    """Rows with a power law of values in every field and a score that is far too high."""
    random = np.random.default_rng(seed)
    columns = [np.minimum((random.pareto(0.8, n_rows) + 1).astype(np.int64), size) for size in sizes]
    features = np.column_stack(columns).astype(np.int32)
    features[random.random(features.shape) < unseen] = 0
    logits = random.normal(1.0, 1.2, n_rows)
    effects = [np.concatenate([[0.0], random.normal(0.3, 0.5, size)]) for size in sizes]
    truth = slope * logits - 3.0 + sum(effect[features[:, f]] for f, effect in enumerate(effects))
    labels = (random.random(n_rows) < 1.0 / (1.0 + np.exp(-truth))).astype(np.float64)
    counts = np.array([size + 1 for size in sizes], dtype=np.int64)
    return logits, labels, np.ones(n_rows), features, counts


def objective(found, rows):
    logits, labels, weights, features, _ = rows
    z = add_shifts(found.slope * logits + found.intercept, features, found.shifts, found.offsets)
    return np.sum(weights * (np.logaddexp(0.0, z) - labels * z)) + 0.5 * PENALTY * np.sum(found.shifts**2)


def gradient(found, rows):
    """The gradient by every shift, the slope and the intercept, one after the other."""
    logits, labels, weights, features, _ = rows
    z = add_shifts(found.slope * logits + found.intercept, features, found.shifts, found.offsets)
    residual = weights * (1.0 / (1.0 + np.exp(-z)) - labels)
    by_field = []
    for field in range(features.shape[1]):
        here = slice(found.offsets[field], found.offsets[field + 1])
        one = np.bincount(features[:, field], residual, here.stop - here.start) + PENALTY * found.shifts[here]
        by_field.append(one[1:])
    return np.concatenate([*by_field, [residual @ logits, residual.sum()]])


def solve(rows, tolerance, **options):
    return solve_wide(*rows, l2=PENALTY, tolerance=tolerance, max_iterations=1000, **options)


@pytest.mark.parametrize("unseen", [0.0, 0.3])
def test_few_passes_reach_the_optimum(unseen):
    rows = skewed(unseen=unseen)
    best = objective(solve(rows, 1e-16), rows)
    found = solve(rows, 1e-9)
    assert found.n_evaluations <= 30
    assert objective(found, rows) <= best * (1.0 + 1e-8)


def test_every_gradient_vanishes_at_the_optimum():
    rows = skewed(unseen=0.1)
    np.testing.assert_allclose(gradient(solve(rows, 1e-16), rows), 0.0, atol=1e-2)


def test_rows_with_unseen_values_do_not_depend_on_the_tolerance():
    rows = skewed()
    loose, tight = solve(rows, 1e-6), solve(rows, 1e-14)
    assert loose.intercept == pytest.approx(tight.intercept, abs=2e-3)


def test_a_score_that_points_the_wrong_way_gets_slope_zero_and_the_best_rest():
    rows = skewed(slope=-0.7)
    found = solve(rows, 1e-16)
    assert found.slope == 0.0
    at = gradient(found, rows)
    assert at[-2] > 1.0  # a smaller slope would fit better, and is not allowed
    np.testing.assert_allclose(np.delete(at, -2), 0.0, atol=1e-2)


def test_a_slope_that_is_not_free_stays():
    rows = skewed()
    offsets = field_offsets(rows[-1])
    nothing = np.zeros(int(offsets[-1]))
    start = replace(solve(rows, 1e-3), slope=0.5, shifts=nothing)
    found = solve(rows, 1e-16, start=start, slope_is_free=False)
    assert found.slope == 0.5
    np.testing.assert_allclose(np.delete(gradient(found, rows), -2), 0.0, atol=1e-2)


def test_shifts_are_centred_over_the_values_that_have_rows():
    logits, labels, weights, features, sizes = skewed()
    rows = logits, labels, weights, features, sizes + 7  # seven values more than the rows have
    found = solve(rows, 1e-5)
    for field in range(4):
        shifts = found.shifts[found.offsets[field] : found.offsets[field + 1]]
        seen = np.unique(features[:, field])
        assert shifts[seen].mean() == pytest.approx(0.0, abs=1e-12)
        assert np.all(np.delete(shifts, seen) == 0.0)


def test_centring_keeps_fitted_values_and_leaves_fields_with_unseen_values_alone():
    rows = skewed(unseen=0.0)
    features = rows[3].copy()
    features[:100, 0] = 0
    rows = (*rows[:3], features, rows[4])
    found = solve(rows, 1e-12)
    drift = np.zeros_like(found.shifts)
    drift[found.offsets[0] + 1 : found.offsets[1]] = 0.2
    drift[found.offsets[1] + 1 : found.offsets[2]] = 0.4
    moved = replace(found, shifts=found.shifts + np.where(found.curvature > 0, drift, 0.0))
    centred = recentred(moved)
    for solution in (moved, centred):
        z = add_shifts(solution.slope * rows[0] + solution.intercept, features, solution.shifts, solution.offsets)
        if solution is moved:
            before = z
    np.testing.assert_allclose(z, before, atol=1e-12)
    first = slice(centred.offsets[0], centred.offsets[1])
    np.testing.assert_array_equal(centred.shifts[first], moved.shifts[first])
    assert np.abs(centred.shifts - found.shifts)[found.offsets[1] : found.offsets[2]].max() < 1e-6


def test_weights_count_like_repeated_rows():
    logits, labels, weights, features, sizes = skewed(n_rows=4000)
    weights = 1.0 + (np.arange(4000) % 3)
    repeated = np.repeat(np.arange(4000), weights.astype(int))
    once = solve((logits, labels, weights, features, sizes), 1e-16)
    often = solve((logits[repeated], labels[repeated], np.ones(repeated.size), features[repeated], sizes), 1e-16)
    np.testing.assert_allclose(once.shifts, often.shifts, atol=1e-5)
    assert once.slope == pytest.approx(often.slope, abs=1e-6)


def test_an_offset_is_as_good_as_a_column_with_coefficient_one():
    random = np.random.default_rng(4)
    z, offset = random.normal(size=2000), random.normal(size=2000)
    labels = (random.random(2000) < 1.0 / (1.0 + np.exp(-(0.6 * z + offset - 1.0)))).astype(np.float64)
    design = np.column_stack([z, np.ones(2000)])
    theta = solve_logistic(design, labels, np.ones(2000), constraints=np.array([[1.0, 0.0]]), offset=offset)
    p = 1.0 / (1.0 + np.exp(-(design @ theta + offset)))
    np.testing.assert_allclose(design.T @ (p - labels), 0.0, atol=1e-6)
    against = solve_logistic(design, 1.0 - labels, np.ones(2000), constraints=np.array([[1.0, 0.0]]), offset=offset)
    assert against[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n_rows", [2000, 200_000])  # by numpy, and compiled
def test_fields_that_are_left_out_of_a_fit_need_not_be_left_out_of_the_rows(n_rows):
    logits, labels, weights, features, sizes = skewed(n_rows)
    columns = np.array([0, 2, 3])
    options = {"l2": PENALTY, "tolerance": 1e-9, "max_iterations": 100}
    chosen = np.ascontiguousarray(features[:, columns])
    expected = solve_wide(logits, labels, weights, chosen, sizes[columns], **options)
    found = solve_wide(logits, labels, weights, features, sizes[columns], columns=columns, **options)
    assert (found.slope, found.intercept) == (expected.slope, expected.intercept)
    np.testing.assert_array_equal(found.shifts, expected.shifts)
    np.testing.assert_array_equal(found.curvature, expected.curvature)
