"""The wide solver reaches its optimum in few passes, keeps the slope at 0 or above, and centres the shifts."""

from dataclasses import replace

import numpy as np
import pytest

from monocal.calibrators.logistic import solve_logistic
from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema
from monocal.core.process import threads_for_rows
from monocal.lab.simulator import simulate_log
from monocal.wide import solver
from monocal.wide.solver import Search, WideParameters, recentred, solve_wide

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
    return Dataset(logits, labels, ids=features, schema=FieldSchema.of([size + 1 for size in sizes]))


def logits_of(found, data):
    return data.fields.add_shifts(found.slope * data.z + found.intercept, data.ids, found.shifts)


def objective(found, data):
    z = logits_of(found, data)
    return np.sum(data.weights * (np.logaddexp(0.0, z) - data.labels * z)) + 0.5 * PENALTY * np.sum(found.shifts**2)


def gradient(found, data):
    """The gradient by every shift but those of unseen values, the slope and the intercept, one after the other."""
    residual = data.weights * (1.0 / (1.0 + np.exp(-logits_of(found, data))) - data.labels)
    by_id = data.fields.sums(data.ids, residual) + PENALTY * found.shifts
    return np.concatenate([np.delete(by_id, data.fields.offsets[:-1]), [residual @ data.z, residual.sum()]])


def solve(data, tolerance, start=None, slope_is_free=True):
    return solve_wide(data, PENALTY, Search(tolerance, 1000, slope_is_free), start)


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
    start = WideParameters.at(np.zeros(rows.fields.n_ids), slope=0.5)
    found = solve(rows, 1e-16, start, slope_is_free=False)
    assert found.slope == 0.5
    np.testing.assert_allclose(np.delete(gradient(found, rows), -2), 0.0, atol=1e-2)


def test_shifts_are_centred_over_the_values_that_have_rows():
    rows = skewed()
    rows = replace(rows, schema=FieldSchema.of(rows.fields.sizes + 7))  # seven values more than the rows have
    found = solve(rows, 1e-5)
    for field in range(4):
        shifts = found.shifts[rows.fields.ids_of(field)]
        seen = np.unique(rows.ids[:, field])
        assert shifts[seen].mean() == pytest.approx(0.0, abs=1e-12)
        assert np.all(np.delete(shifts, seen) == 0.0)


def test_centring_keeps_fitted_values_and_leaves_fields_with_unseen_values_alone():
    rows = skewed()
    rows.ids[:100, 0] = 0
    first, second = rows.fields.ids_of(0), rows.fields.ids_of(1)
    found = solve(rows, 1e-12)
    drift = np.zeros_like(found.shifts)
    drift[first], drift[second] = 0.2, 0.4
    moved = replace(found, shifts=found.shifts + np.where(found.curvature > 0, drift, 0.0))
    centred = recentred(moved, rows.fields)
    np.testing.assert_allclose(logits_of(centred, rows), logits_of(moved, rows), atol=1e-12)
    np.testing.assert_array_equal(centred.shifts[first], moved.shifts[first])
    assert np.abs(centred.shifts - found.shifts)[second].max() < 1e-6


def test_weights_count_like_repeated_rows():
    rows = skewed(n_rows=4000)
    weights = 1.0 + (np.arange(4000) % 3)
    once = solve(replace(rows, w=weights), 1e-16)
    often = solve(rows.take(np.repeat(np.arange(4000), weights.astype(int))), 1e-16)
    np.testing.assert_allclose(once.shifts, often.shifts, atol=1e-5)
    assert once.slope == pytest.approx(often.slope, abs=1e-6)


def test_an_offset_is_as_good_as_a_column_with_coefficient_one():
    random = np.random.default_rng(4)
    z, offset = random.normal(size=2000), random.normal(size=2000)
    labels = (random.random(2000) < 1.0 / (1.0 + np.exp(-(0.6 * z + offset - 1.0)))).astype(np.float64)
    design = np.column_stack([z, np.ones(2000)])
    options = {"constraints": np.array([[1.0, 0.0]]), "offset": offset}
    theta = solve_logistic(Dataset(z, labels), lambda block: block.of(design), **options)
    p = 1.0 / (1.0 + np.exp(-(design @ theta + offset)))
    np.testing.assert_allclose(design.T @ (p - labels), 0.0, atol=1e-6)
    against = solve_logistic(Dataset(z, 1.0 - labels), lambda block: block.of(design), **options)
    assert against[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n_rows", [2000, 200_000])  # by numpy, and compiled
def test_fields_that_are_left_out_of_a_fit_need_not_be_left_out_of_the_rows(n_rows):
    rows, columns = skewed(n_rows), np.array([0, 2, 3])
    chosen = rows.with_fields(columns)
    alone = replace(rows, ids=np.ascontiguousarray(rows.ids[:, columns]), schema=chosen.fields.alone())
    expected, found = (solve_wide(data, PENALTY, Search(1e-9, 100)) for data in (alone, chosen))
    assert (found.slope, found.intercept) == (expected.slope, expected.intercept)
    np.testing.assert_array_equal(found.shifts, expected.shifts)
    np.testing.assert_array_equal(found.curvature, expected.curvature)


def test_a_wide_fit_by_two_threads_has_the_bits_of_one(monkeypatch):
    monkeypatch.setattr("monocal.core.dataset.BLOCK_ROWS", 1_000)
    monkeypatch.setattr("monocal.wide.solver.COMPILED_FROM_CELLS", 1)
    shared, add = [], solver.add_in_threads
    monkeypatch.setattr(solver, "add_in_threads", lambda *given: shared.append(1) or add(*given))
    log = simulate_log(20_500, seed=1)
    rows = Dataset(log.scores, log.labels.astype(float), np.random.default_rng(0).random(20_500), log.features)
    found = []
    for n_threads in (1, 2, 5):
        with threads_for_rows(n_threads):
            found.append(solve_wide(rows, 1.0, Search(1e-9, 50)))
        assert bool(shared) == (n_threads > 1)
    for other in found[1:]:
        assert np.array_equal(found[0].shifts, other.shifts)
        assert (found[0].slope, found[0].intercept) == (other.slope, other.intercept)
