"""The spread of what a fit misses stays a number where answers or scores are extreme."""

import numpy as np
import pytest

from monocal.core.dataset import Dataset
from monocal.core.scores import sigmoid
from monocal.wide.intervals import MOST_VARIANCE, posterior_at_fit, variance_components


def spread(logits, scores, labels):
    (found,) = variance_components([logits], Dataset(scores, labels))
    return {name: float(value[0]) for name, value in found.items()}


def test_answers_of_0_and_1_in_all_digits_that_are_wrong_have_a_bounded_spread():
    random = np.random.default_rng(0)
    scores = random.normal(size=4_000)
    labels = (random.random(4_000) < 0.5).astype(float)
    found = spread(np.where(scores > 0.0, 90.0, -90.0), scores, labels)
    assert 1.0 < found["of_score"] + found["of_slopes"] <= 2.0 * MOST_VARIANCE


def test_rows_with_one_score_have_no_slope_to_miss():
    labels = (np.random.default_rng(0).random(4_000) < 0.5).astype(float)
    found = spread(np.full(4_000, -2.0), np.full(4_000, -2.0), labels)
    assert found["of_slopes"] == 0.0
    assert found["of_score"] > 1.0


def test_forecasts_that_are_looked_at_together_miss_what_each_misses_alone():
    random = np.random.default_rng(0)
    features = random.integers(1, 6, (5000, 3)).astype(np.int32)
    scores = random.normal(-1.0, 1.0, 5000)
    labels = (random.random(5000) < sigmoid(scores + 0.8 * (features[:, 0] == features[:, 1]))).astype(np.float64)
    rows, leverages = Dataset(scores, labels, ids=features), np.full((5000, 3), 1e-3)
    forecasts = [scores, 0.5 * scores - 0.3]
    together = variance_components(forecasts, rows, leverages)
    alone = [variance_components([logits], rows, leverages)[0] for logits in forecasts]
    assert together == alone
    assert together[0] != together[1]


def test_level_and_slope_are_known_as_a_regression_of_the_score_alone_knows_them():
    z = np.random.default_rng(5).normal(-2.0, 1.0, 500)
    logits = 0.8 * z - 0.3
    p = sigmoid(logits)
    design = np.column_stack([np.ones_like(z), z])
    fisher = design.T @ (design * (p * (1.0 - p))[:, None])
    level, slope = posterior_at_fit(logits, Dataset(z), np.zeros(0))["single"]
    assert level == pytest.approx(fisher[0, 0], rel=1e-12)
    assert slope == pytest.approx(1.0 / np.linalg.inv(fisher)[1, 1], rel=1e-9)
