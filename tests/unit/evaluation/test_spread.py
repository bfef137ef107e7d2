"""Errors beyond chance: the number recovers what was planted, and the test keeps its level."""

import numpy as np
import pytest

from monocal.evaluation.stats import levelled, matched_counts, spread_of


def counts_of(ids, p, labels, n_values):
    sums = [np.bincount(ids, weights=column, minlength=n_values) for column in (labels, p, p * p)]
    return matched_counts(*sums, np.ones(n_values))


@pytest.mark.parametrize(("n_values", "exponent"), [(5, 1.0), (300, 1.1), (5_000, 0.6)])
def test_chance_alone_is_rarely_called_an_error(n_values, exponent):
    rng = np.random.default_rng(1)
    popularity = np.arange(1, n_values + 1) ** -exponent
    ids = rng.choice(n_values, 20_000, p=popularity / popularity.sum())
    p = rng.beta(1.0, 15.0, 20_000)
    found = [spread_of(counts_of(ids, p, rng.random(20_000) < p, n_values)) for _ in range(300)]
    p_values = np.array([spread.p_value for spread in found])
    # three standard errors around 5 %
    assert 0.012 < np.mean(p_values < 0.05) < 0.088
    assert 0.4 < p_values.mean() < 0.6
    assert np.mean([spread.is_visible for spread in found]) < 0.06


@pytest.mark.parametrize("n_values", [10, 400, 8_000])
def test_a_planted_relative_error_is_recovered_at_any_sparsity(n_values):
    rng = np.random.default_rng(2)
    ids = rng.integers(0, n_values, 60_000)
    p = rng.uniform(0.05, 0.15, 60_000)
    off = rng.choice([0.7, 1.3], n_values)
    found = spread_of(counts_of(ids, p, rng.random(60_000) < p * off[ids], n_values))
    assert found.relative_error == pytest.approx(0.3, abs=0.03)
    assert found.p_value < 1e-6
    assert found.is_visible


def test_over_prediction_of_sparse_cells_does_not_hide():
    rng = np.random.default_rng(3)
    ids, p = rng.integers(0, 30_000, 60_000), np.full(60_000, 0.1)
    assert spread_of(counts_of(ids, p, rng.random(60_000) < 0.05, 30_000)).relative_error == pytest.approx(
        0.5, abs=0.05
    )


def test_levelling_takes_the_common_bias_out():
    rng = np.random.default_rng(4)
    ids, p = rng.integers(0, 50, 40_000), np.full(40_000, 0.2)
    counts = counts_of(ids, p, rng.random(40_000) < 0.1, 50)
    assert spread_of(counts).relative_error > 0.4
    assert not spread_of(levelled(counts)).is_visible


def test_nothing_predicted_is_unknown_not_zero():
    nothing = matched_counts(np.zeros(3), np.zeros(3), np.zeros(3), np.ones(3))
    assert np.isnan(spread_of(nothing).relative_error)
