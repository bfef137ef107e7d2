"""Before labels come: the population stability index, and what a forecast expects of itself."""

import math

import numpy as np
import pytest

from monocal.metrics import Forecast, metric
from monocal.metrics.drift import expected_performance, shift_since_fit, stability_index


def test_value_and_noise_are_their_formulas_and_both_samples_count_alike():
    a, b = np.array([120.0, 60.0, 20.0]), np.array([30.0, 10.0, 0.0])
    p, q = (a + 0.5) / (200.0 + 1.5), (b + 0.5) / (40.0 + 1.5)
    found = stability_index(a, b)
    assert found.value == pytest.approx(float(np.sum((q - p) * np.log(q / p))), rel=1e-12)
    assert found.noise == pytest.approx(2.0 * (1.0 / 200.0 + 1.0 / 40.0), rel=1e-12)
    assert stability_index(b, a) == pytest.approx(found)


def test_noise_is_what_two_samples_of_one_distribution_show():
    rng = np.random.default_rng(0)
    shares = np.full(20, 0.05)
    seen = [stability_index(rng.multinomial(3000, shares), rng.multinomial(2000, shares)) for _ in range(400)]
    assert np.mean([found.value for found in seen]) == pytest.approx(seen[0].noise, rel=0.1)


@pytest.mark.parametrize(("reference", "counts"), [([0, 0], [5, 5]), ([5, 5], [0, 0])])
def test_undefined_if_either_side_has_no_rows(reference, counts):
    assert all(map(math.isnan, stability_index(reference, counts)))


def test_scores_have_moved_as_far_as_their_counts_in_the_bins_of_the_fit():
    facts = {"score_edges_logit": [-1.0, 1.0], "score_shares": [0.5, 0.3, 0.2], "n_rows": 100}
    logits, weights = np.array([-2.0, 0.5]), np.array([30.0, 10.0])
    found = shift_since_fit(facts, logits, weights)
    assert found == pytest.approx(stability_index([50, 30, 20], [30, 10, 0]))
    assert shift_since_fit(facts, np.repeat(logits, [30, 10])) == found
    for unknown in ({}, {"score_edges_logit": [], "score_shares": [1.0], "n_rows": 9}):
        assert math.isnan(shift_since_fit(unknown, logits).value)


def test_a_forecast_expects_what_labels_drawn_from_it_have():
    rng = np.random.default_rng(8)
    p = rng.beta(1, 6, 40_000).round(2)
    drawn, found = Forecast.of(rng.random(p.size) < p, p), expected_performance(p)
    assert found.auc == pytest.approx(metric("auc").of(drawn).number, abs=0.01)
    assert found.log_loss == pytest.approx(metric("log_loss").of(drawn).number, abs=0.01)
