"""Sums per cell: weights repeat rows, groups widen noise, money follows positives."""

import numpy as np
import pytest

from monocal.findings.cells import dispersion_of, sum_cells
from monocal.findings.reliability import reliability_curve, wilson


def test_weight_k_is_the_row_k_times(make_rows):
    labels, p, weights, ids = [1, 0, 1], [0.2, 0.5, 0.7], np.array([3.0, 1.0, 2.0]), [0, 1, 1]
    repeated = np.repeat(np.arange(3), weights.astype(int))
    weighted = sum_cells(make_rows(labels, p, weights=weights, values=np.array([5.0, 1.0, 2.0])), np.array(ids), 2)
    plain = sum_cells(
        make_rows(np.take(labels, repeated), np.take(p, repeated), values=np.take([5.0, 1.0, 2.0], repeated)),
        np.take(ids, repeated),
        2,
    )
    for name in ("weight", "observed", "value"):
        assert getattr(weighted, name).tolist() == getattr(plain, name).tolist()
    assert weighted.before.predicted == pytest.approx(plain.before.predicted)
    assert weighted.value_gap("before") == pytest.approx(plain.value_gap("before"))


def test_money_is_promised_minus_delivered(make_rows):
    rows = make_rows([1, 0], [0.5, 0.5], [0.25, 0.25], values=np.array([8.0, 4.0]))
    cells = sum_cells(rows, None, 1)
    assert cells.value_gap("before").tolist() == [-2.0]
    assert cells.value_gap("after").tolist() == [-5.0]


def test_without_a_value_column_money_is_unknown(make_rows):
    assert np.isnan(sum_cells(make_rows([1, 0], [0.5, 0.5]), None, 1).value_gap("before")).all()


def test_groups_whose_rows_agree_widen_the_noise(make_rows, world):
    truth, labels, rng = world
    alone = make_rows(labels, truth, groups=rng.integers(0, 20_000, 40_000))
    assert dispersion_of(alone) == pytest.approx(1.0, abs=0.05)
    copies = np.repeat(np.arange(10_000), 4)
    together = make_rows(labels[copies], truth[copies], groups=copies)
    assert dispersion_of(together) == pytest.approx(4.0, abs=0.1)
    assert dispersion_of(make_rows(labels, truth)) == 1.0


def test_only_rows_of_one_group_in_the_same_cell_widen_it(make_rows, world):
    truth, labels, _ = world
    copies = np.repeat(np.arange(10_000), 4)
    rows = make_rows(labels[copies], truth[copies], groups=copies)
    apart, attribute = np.tile(np.arange(4), 10_000), copies % 3
    assert dispersion_of(rows, apart) == pytest.approx(1.0, abs=0.05)
    assert dispersion_of(rows, attribute) == pytest.approx(4.0, abs=0.1)
    assert dispersion_of(rows, copies) == 1.0


def test_bins_of_equal_mass_hold_every_row_once(world):
    truth, labels, _ = world
    curve = reliability_curve(labels, np.round(truth, 2), n_bins=7)
    assert curve.weight.sum() == 40_000
    assert curve.positives.sum() == labels.sum()
    assert np.all(np.diff(curve.predicted) > 0.0)


def test_a_right_forecast_lies_on_the_diagonal_and_a_wrong_one_does_not(world):
    truth, labels, _ = world
    assert reliability_curve(labels, truth).n_outside <= 3
    assert reliability_curve(labels, 1.3 * truth).n_outside >= 15


def test_wilson_stays_inside_and_covers():
    rng = np.random.default_rng(0)
    hits = rng.binomial(200, 0.03, 4_000) / 200.0
    low, high = wilson(hits, np.full(4_000, 200.0))
    assert low.min() >= 0.0
    assert 0.93 < np.mean((low <= 0.03) & (high >= 0.03)) < 0.985
