"""Laws of shares under shocks that a value's rows have in common: values are counted, not rows."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from monocal.calibrators.statistical.carry_over.later_rows import Cells, LaterRows
from monocal.calibrators.statistical.carry_over.shares import PRIOR_STRENGTH, solve_shares
from monocal.calibrators.statistical.carry_over.value_shocks import shock_variances
from monocal.core.spaces import sigmoid

N_VALUES, N_ROWS, SHOCK = 60, 8000, 0.5
SEEDS = range(24)


def later_rows(share, seed, shock=SHOCK):
    """Few values, the first with a fifth of the rows; what was learned of each held to a share, plus a shock."""
    random = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, N_VALUES + 1)
    ids = random.choice(N_VALUES, N_ROWS, p=frequency / frequency.sum())
    learned = 0.5 * random.normal(size=N_VALUES)
    now = share * learned + shock * random.normal(size=N_VALUES)
    block = np.arange(N_ROWS) * 8 // N_ROWS
    labels = (random.random(N_ROWS) < sigmoid(0.1 * block - 0.4 + now[ids])).astype(float)
    cells = Cells(ids[:, None].astype(np.int32), np.array([N_VALUES]), n_cuts=1)
    return LaterRows(np.zeros(N_ROWS), learned[ids][:, None], labels, np.ones(N_ROWS), block, block, cells)


def by_rows(rows):
    """The same rows without a word about their values."""
    return replace(rows, cells=None)


def found(held, prepared, **options):
    shares = [solve_shares(prepared(later_rows(held, seed, **options)), np.ones(1)) for seed in SEEDS]
    return np.array([share.values[0] for share in shares]), np.array([share.errors[0] for share in shares])


def root_mean_square(gaps):
    return float(np.sqrt(np.mean(gaps**2)))


def test_few_values_under_strong_shocks_tell_their_share():
    by_value, _ = found(0.5, lambda rows: rows)
    assert root_mean_square(by_value - 0.5) < 0.19
    assert root_mean_square(found(0.5, by_rows)[0] - 0.5) > 0.21


def test_with_few_values_what_lasts_is_believed_and_what_passes_is_not():
    lasting, passing = found(1.0, lambda rows: rows)[0], found(0.0, lambda rows: rows)[0]
    assert lasting.mean() > 0.85  # no share is above 1, so scatter shows on one side only
    assert passing.mean() < 0.1
    assert root_mean_square(found(0.0, by_rows)[0]) > 1.5 * root_mean_square(passing)
    assert found(1.0, lambda rows: rows, shock=0.0)[0].min() > 0.85


def test_the_error_beside_a_share_is_its_scatter_from_draw_to_draw():
    by_value, errors = found(0.5, lambda rows: rows)
    assert errors.mean() == pytest.approx(by_value.std(), rel=0.3)
    by_row, too_small = found(0.5, by_rows)
    assert too_small.mean() < 0.6 * by_row.std()


def test_without_shocks_shares_have_the_bits_of_rows_that_all_count_the_same():
    random = np.random.default_rng(0)
    ids = np.repeat(np.arange(50), 40)
    labels = np.tile([0.0, 0.0, 0.0, 1.0], 500)  # every value has the same rate: less scatter than counting makes
    learned = 0.3 * random.normal(size=50)[ids][:, None]
    block = np.tile(np.arange(40) // 4, 50)
    cells = Cells(ids[:, None].astype(np.int32), np.array([50]), n_cuts=1)
    rows = LaterRows(np.full(2000, -1.1), learned, labels, np.ones(2000), block, block, cells)
    told, silent = solve_shares(rows, np.zeros(1)), solve_shares(by_rows(rows), np.zeros(1))
    assert told.values.tobytes() == silent.values.tobytes()
    assert told.errors.tobytes() == silent.errors.tobytes()


def test_a_share_solves_the_equation_of_its_weighed_rows():
    """Once the shocks are known to be of one size, a field's score is what its prior asks for."""
    rows = later_rows(0.5, seed=3)
    share, effect = solve_shares(rows, np.ones(1)), solve_shares(by_rows(rows), np.ones(1)).design_effects
    assert 0.0 < share.values[0] < 1.0
    ids, learned = rows.cells.numbers[:, 0], rows.contributions[:, 0]
    level = np.zeros(8)
    for _ in range(30):
        p = sigmoid(learned * share.values[0] + level[rows.levels])
        level += np.bincount(rows.levels, rows.labels - p) / np.bincount(rows.levels, p * (1.0 - p))
    curvature, residual = p * (1.0 - p), rows.labels - p
    h, r = np.bincount(ids, curvature), np.bincount(ids, residual)
    weight = (1.0 / (1.0 + shock_variances(r, h, np.zeros(N_VALUES, dtype=int), 1)[0] * h))[ids]
    mean = np.bincount(rows.levels, weight * curvature * learned) / np.bincount(rows.levels, weight * curvature)
    score = weight @ (residual * (learned - mean[rows.levels]))
    counts = (weight * curvature) @ learned**2 / (curvature @ learned**2)
    asked = PRIOR_STRENGTH * effect[0] * counts * (share.values[0] - 1.0)
    assert score == pytest.approx(asked, abs=0.02 * (weight * curvature) @ learned**2)


def test_the_variance_of_shocks_is_not_that_of_the_most_frequent_values():
    random = np.random.default_rng(0)
    h = np.concatenate([[50_000.0, 30_000.0], np.full(400, 60.0)])
    r = random.normal(size=402) * np.sqrt(h + 0.25 * h**2)
    r[:2] = 0.0  # two large values happen to have none
    assert shock_variances(r, h, np.zeros(402, dtype=int), 1)[0] == pytest.approx(0.25, rel=0.2)
    assert shock_variances(0.9 * np.sqrt(h), h, np.zeros(402, dtype=int), 1)[0] == 0.0


def test_weighed_shares_take_no_second_array_as_large_as_the_contributions():
    random = np.random.default_rng(0)
    ids = random.integers(0, 30, (100_000, 20)).astype(np.int32)
    parts, block = random.normal(size=30)[ids], np.arange(100_000) // 10_000
    labels = (random.random(100_000) < sigmoid(parts[:, 0] - 1.0)).astype(float)
    cells = Cells(ids, np.full(20, 30), n_cuts=1)
    rows = LaterRows(np.zeros(100_000), parts, labels, np.ones(100_000), block, block, cells)
    tracemalloc.start()
    try:
        solve_shares(rows, np.zeros(20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.8 * parts.nbytes
