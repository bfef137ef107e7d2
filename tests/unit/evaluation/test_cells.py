"""Sums per cell: weights repeat rows, groups widen noise, value follows positives."""

import numpy as np
import pytest

from monocal.evaluation.fields import dispersion_of, sum_cells


@pytest.fixture
def world():
    """True probabilities of 40,000 rows, labels drawn from them, and the generator that drew them."""
    rng = np.random.default_rng(7)
    truth = rng.uniform(0.01, 0.2, 40_000)
    return truth, (rng.random(40_000) < truth).astype(float), rng


def test_weight_k_is_the_row_k_times():
    labels, p, ids = np.array([1.0, 0.0, 1.0]), np.array([0.2, 0.5, 0.7]), np.array([0, 1, 1])
    weights, values = np.array([3.0, 1.0, 2.0]), np.array([5.0, 1.0, 2.0])
    again = np.repeat(np.arange(3), weights.astype(int))
    (weighted,) = sum_cells(labels, [p], ids, 2, weights=weights, values=values)
    (plain,) = sum_cells(labels[again], [p[again]], ids[again], 2, values=values[again])
    for name in ("weight", "observed", "predicted", "observed_value", "value_gap"):
        assert getattr(weighted, name) == pytest.approx(getattr(plain, name))


def test_value_is_predicted_minus_delivered():
    forecasts = [np.full(2, 0.5), np.full(2, 0.25)]
    before, after = sum_cells(np.array([1.0, 0.0]), forecasts, np.zeros(2, int), 1, values=np.array([8.0, 4.0]))
    assert before.value_gap.tolist() == [-2.0]
    assert after.value_gap.tolist() == [-5.0]


def test_without_a_value_column_value_is_unknown():
    (cells,) = sum_cells(np.array([1.0, 0.0]), [np.full(2, 0.5)], np.zeros(2, int), 1)
    assert np.isnan(cells.value_gap).all()


def test_groups_whose_rows_agree_widen_the_noise(world):
    truth, labels, rng = world
    whole = np.zeros(40_000, dtype=int)
    assert dispersion_of(labels, truth, whole, groups=rng.integers(0, 20_000, 40_000)) == pytest.approx(1.0, abs=0.05)
    copies = np.repeat(np.arange(10_000), 4)
    assert dispersion_of(labels[copies], truth[copies], whole, groups=copies) == pytest.approx(4.0, abs=0.1)
    assert dispersion_of(labels, truth, whole, groups=None) == 1.0


def test_only_rows_of_one_group_in_the_same_cell_widen_it(world):
    truth, labels, _ = world
    copies = np.repeat(np.arange(10_000), 4)
    rows = (labels[copies], truth[copies])
    apart, attribute = np.tile(np.arange(4), 10_000), copies % 3
    assert dispersion_of(*rows, apart, groups=copies) == pytest.approx(1.0, abs=0.05)
    assert dispersion_of(*rows, attribute, groups=copies) == pytest.approx(4.0, abs=0.1)
    assert dispersion_of(*rows, copies, groups=copies) == 1.0
