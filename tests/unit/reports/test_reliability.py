"""Reliability: bins of equal mass, intervals that cover."""

import numpy as np

from monocal.metrics import Forecast
from monocal.reports.reliability import reliability_curve, wilson


def test_bins_of_equal_mass_hold_every_row_once(world):
    truth, labels, _ = world
    curve = reliability_curve(Forecast.of(labels, np.round(truth, 2)), n_bins=7)
    assert curve.weight.sum() == 40_000
    assert curve.positives.sum() == labels.sum()
    assert np.all(np.diff(curve.predicted) > 0.0)


def test_a_right_forecast_lies_on_the_diagonal_and_a_wrong_one_does_not(world):
    truth, labels, _ = world
    assert reliability_curve(Forecast.of(labels, truth)).n_outside <= 3
    assert reliability_curve(Forecast.of(labels, 1.3 * truth)).n_outside >= 15


def test_wilson_stays_inside_and_covers():
    rng = np.random.default_rng(0)
    hits = rng.binomial(200, 0.03, 4_000) / 200.0
    low, high = wilson(hits, np.full(4_000, 200.0))
    assert low.min() >= 0.0
    assert 0.93 < np.mean((low <= 0.03) & (high >= 0.03)) < 0.985
