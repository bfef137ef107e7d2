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


def test_scores_of_all_rows(rows):
    def expected(score, p=rows.probabilities):
        return score(rows.labels, p, sample_weight=rows.weights)

    rate = np.full(rows.n_rows, np.average(rows.labels, weights=rows.weights))
    found = {name: metric(name).of(rows).number for name in ("auc", "log_loss", "brier", "ne")}
    assert found["auc"] == pytest.approx(expected(roc_auc_score), abs=1e-12)
    assert found["log_loss"] == pytest.approx(expected(log_loss), abs=1e-12)
    assert found["brier"] == pytest.approx(expected(brier_score_loss), abs=1e-12)
    assert found["ne"] == pytest.approx(expected(log_loss) / expected(log_loss, rate), abs=1e-12)


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


@pytest.mark.parametrize("top", [1, 3, 10])
def test_ndcg_with_ties_and_lists_drawn_several_times(top):
    rows, chosen = sample_forecast(600, seed=21), metric("ndcg", top=top)
    members = [rows.groups == value for value in np.unique(rows.groups)]
    members = [member for member in members if rows.labels[member].any()]
    values = [ndcg_score([rows.labels[member]], [rows.probabilities[member]], k=top) for member in members]
    assert chosen.of(rows).number == pytest.approx(np.mean(values), abs=1e-12)
    # a list that is drawn twice counts twice, with the value it has
    drawn = np.random.default_rng(0).poisson(1.0, int(rows.groups.max()) + 1).astype(float)
    (state,) = chosen.summary.replay(rows).reweighted(rows.groups, drawn[None, :])
    times = [drawn[rows.groups[member][0]] for member in members]
    assert chosen.value(state).number == pytest.approx(np.average(values, weights=times), abs=1e-12)
