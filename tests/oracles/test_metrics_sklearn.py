"""The same numbers from another library, and from plain loops."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss, ndcg_score, roc_auc_score

from monocal.metrics import Forecast, metric
from monocal.testing.metric_laws import sample_forecast


@pytest.fixture(params=["plain", "weighted", "tied"])
def rows(request):
    rng = np.random.default_rng(3)
    probabilities = rng.beta(1.0, 6.0, 3000)
    if request.param == "tied":
        probabilities = np.round(probabilities, 2).clip(0.01, 0.99)
    labels = (rng.random(3000) < probabilities**1.2).astype(int)
    weights = rng.uniform(0.0, 3.0, 3000) if request.param == "weighted" else None
    return Forecast.of(labels, probabilities, weights=weights, groups=rng.integers(0, 40, 3000))


def test_auc(rows):
    expected = roc_auc_score(rows.labels, rows.probabilities, sample_weight=rows.weights)
    assert metric("auc").of(rows).number == pytest.approx(expected, abs=1e-12)


def test_log_loss(rows):
    expected = log_loss(rows.labels, rows.probabilities, sample_weight=rows.weights)
    assert metric("log_loss").of(rows).number == pytest.approx(expected, abs=1e-12)


def test_normalised_entropy(rows):
    rate = np.average(rows.labels, weights=rows.weights)
    constant = log_loss(rows.labels, np.full(rows.n_rows, rate), sample_weight=rows.weights)
    expected = log_loss(rows.labels, rows.probabilities, sample_weight=rows.weights) / constant
    assert metric("ne").of(rows).number == pytest.approx(expected, abs=1e-12)


def test_brier(rows):
    expected = brier_score_loss(rows.labels, rows.probabilities, sample_weight=rows.weights)
    assert metric("brier").of(rows).number == pytest.approx(expected, abs=1e-12)


def test_gauc(rows):
    total = area = 0.0
    for group in np.unique(rows.groups):
        member = rows.groups == group
        if 0 < rows.labels[member].sum() < member.sum():
            weights = None if rows.weights is None else rows.weights[member]
            size = member.sum() if weights is None else weights.sum()
            area += size * roc_auc_score(rows.labels[member], rows.probabilities[member], sample_weight=weights)
            total += size
    assert metric("gauc").of(rows).number == pytest.approx(area / total, abs=1e-12)


@pytest.mark.parametrize("bins", [2, 15, 37])
def test_adaptive_ece_is_sort_and_split_when_nothing_ties(bins):
    rng = np.random.default_rng(0)
    probabilities = rng.random(1000)
    labels = (rng.random(1000) < probabilities).astype(float)
    order = np.argsort(probabilities)
    parts = np.array_split((labels - probabilities)[order], bins)
    expected = sum(abs(part.sum()) for part in parts) / 1000
    assert metric("adaptive_ece", bins=bins).of(Forecast.of(labels, probabilities)).number == pytest.approx(expected)


def test_smooth_ece_agrees_with_the_direct_sum():
    rng = np.random.default_rng(1)
    p = rng.random(200)
    y = (rng.random(200) < p).astype(float)
    t = np.linspace(0.0, 1.0, 4001)
    h = 0.07
    images = [2 * k + sign * p for k in range(-3, 4) for sign in (1.0, -1.0)]
    kernel = sum(np.exp(-0.5 * ((t[:, None] - image[None, :]) / h) ** 2) for image in images)
    curve = np.abs(kernel @ (y - p)) / (200 * h * np.sqrt(2 * np.pi))
    expected = np.trapezoid(curve, t)
    found = metric("smooth_ece", bandwidth=h).of(Forecast.of(y, p)).number
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("top", [1, 3, 10])
def test_ndcg_with_ties_is_that_of_scikit_learn(top):
    rows = sample_forecast(600, seed=21)
    values = []
    for value in np.unique(rows.groups):
        chosen = rows.groups == value
        if rows.labels[chosen].any():
            values.append(ndcg_score([rows.labels[chosen]], [rows.probabilities[chosen]], k=top))
    assert metric("ndcg", top=top).of(rows).number == pytest.approx(np.mean(values), abs=1e-12)


def test_a_list_drawn_twice_counts_twice_with_the_value_it_has():
    rows = sample_forecast(400, seed=22)
    drawn = np.random.default_rng(0).poisson(1.0, int(rows.groups.max()) + 1).astype(float)
    (state,) = metric("ndcg").summary.replay(rows).reweighted(rows.groups, drawn[None, :])
    values, times = [], []
    for value in np.unique(rows.groups):
        chosen = rows.groups == value
        if rows.labels[chosen].any():
            values.append(ndcg_score([rows.labels[chosen]], [rows.probabilities[chosen]], k=10))
            times.append(drawn[value])
    assert metric("ndcg").value(state).number == pytest.approx(np.average(values, weights=times), abs=1e-12)
