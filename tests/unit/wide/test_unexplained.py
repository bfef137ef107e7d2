"""The spread of what a fit misses stays a number where answers or scores are extreme."""

import numpy as np

from monocal.core.dataset import Dataset
from monocal.core.scores import sigmoid
from monocal.wide.intervals import MOST_VARIANCE, variance_components


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
