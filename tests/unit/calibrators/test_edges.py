"""Scores beyond the fitted range."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.calibrators.binned import Isotonic

SCORES = np.array([0.2, 0.2, 0.2, 0.4, 0.4, 0.4, 0.6, 0.6, 0.6])
LABELS = np.array([0, 0, 1, 0, 1, 0, 1, 1, 0])


def test_isotonic_is_constant_outside_its_fitted_range():
    isotonic = Isotonic().fit(SCORES, LABELS)
    inside = isotonic.predict([0.2, 0.6])
    np.testing.assert_allclose(inside, [1 / 3, 2 / 3])
    outside = isotonic.predict([0.0, 1e-6, 0.1, 0.199, 0.601, 0.9, 1.0])
    assert outside.tolist() == [inside[0]] * 4 + [inside[1]] * 3


@pytest.mark.parametrize("score", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_isotonic_stays_between_the_rates_it_saw(score):
    p = Isotonic().fit(SCORES, LABELS).predict([score])[0]
    assert 1 / 3 - 1e-12 <= p <= 2 / 3 + 1e-12


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_one_bin_is_the_mean_rate(binning):
    found = calibrator("histogram", n_bins=1, binning=binning).fit(SCORES, LABELS).predict([0.1, 0.4, 0.9])
    np.testing.assert_allclose(found, LABELS.mean())


def test_factors_carry_a_probability_to_less_than_1():
    """One field value has far more positives than its scores say; its factor times a high score would pass 1."""
    scores, labels, ids = np.tile([0.1, 0.9], 200), np.tile([1, 1, 0, 1], 100), np.tile([1, 1, 2, 2], 100)
    fitted = calibrator("confcalib", fusion="geometric", field_weights=[1.0]).fit(scores, labels, features=ids[:, None])
    high = fitted.predict([0.999, 1.0], features=[[1], [1]])
    assert (high < 1.0).all()
    assert (high > 0.999).all()
