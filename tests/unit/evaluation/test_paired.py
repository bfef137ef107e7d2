"""Paired differences find what separate intervals hide."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.evaluation.evaluate import evaluate
from monocal.evaluation.paired import compare_evaluations


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    truth = rng.beta(2.0, 18.0, 20_000)
    return (rng.random(20_000) < truth).astype(float), truth


def test_a_small_improvement_is_seen_although_intervals_overlap(log):
    labels, truth = log
    first, second = (evaluate(labels, p, metrics=["log_loss"]) for p in (truth**1.06, truth))
    result = compare_evaluations(first, second)
    assert first.interval("log_loss").low < second.interval("log_loss").high
    assert result.verdict("log_loss") == "better"
    assert compare_evaluations(second, first).verdict("log_loss") == "worse"
    low, high = result.interval("log_loss")
    assert low < result.difference("log_loss") < high < 0.0


def test_equal_forecasts_tie(log):
    labels, truth = log
    result = compare_evaluations(evaluate(labels, truth, n_bootstrap=40), evaluate(labels, truth, n_bootstrap=40))
    assert {entry["verdict"] for entry in result.as_dict().values()} == {"tie"}
    with pytest.raises(UnknownName, match="did you mean 'ece'"):
        result.verdict("ecee")


def test_pcoc_is_judged_by_its_distance_from_one(log):
    labels, truth = log
    high, low, right = (evaluate(labels, factor * truth, metrics=["pcoc"]) for factor in (1.2, 0.8, 1.0))
    assert compare_evaluations(high, right).verdict("pcoc") == "better"
    assert compare_evaluations(low, right).verdict("pcoc") == "better"
    assert compare_evaluations(right, low).verdict("pcoc") == "worse"
    both = compare_evaluations(low, right)
    assert both.difference("pcoc") == pytest.approx(abs(right.value("pcoc") - 1.0) - abs(low.value("pcoc") - 1.0))
    # interval and verdict are about the same quantity
    assert both.interval("pcoc").low < both.difference("pcoc") < both.interval("pcoc").high < 0.0


def test_a_difference_that_nobody_would_pay_for_is_a_tie(log):
    labels, truth = log
    before, after = evaluate(labels, 1.2 * truth), evaluate(labels, truth)
    size = abs(compare_evaluations(before, after).size("log_loss"))
    assert compare_evaluations(before, after).verdict("log_loss") == "better"
    assert compare_evaluations(before, after, margin=1.1 * size).verdict("log_loss") == "tie"
    assert compare_evaluations(before, after, margin=0.9 * size).verdict("log_loss") == "better"
    # a shift of a few parts in a million is paired so well that its interval excludes zero
    hardly = compare_evaluations(before, evaluate(labels, 1.2 * truth * (1 - 2e-6)))
    assert hardly.interval("log_loss").high < 0.0
    assert hardly.verdict("log_loss") == "tie"
    with pytest.raises(InvalidInput, match="margin: got 1.5; expected a share"):
        compare_evaluations(before, after, margin=1.5)


def test_a_verdict_names_its_size(log):
    labels, truth = log
    found = compare_evaluations(evaluate(labels, 1.2 * truth), evaluate(labels, truth))
    share = 1 - found.second.value("ece") / found.first.value("ece")
    assert found.describe("ece") == f"better by {100 * share:.1f} %"
    assert found.describe("pcoc").startswith("better by 0.1")
    assert found.describe("auc") == "tie"
    assert found.as_dict()["ece"]["size"] == pytest.approx(-share)
    assert next(line for line in str(found).splitlines() if line.startswith("ece")).endswith("better")


def test_ranking_metrics_want_more(log):
    labels, truth = log
    noise = np.random.default_rng(2).normal(0.0, 0.05, truth.shape)
    blurred = np.clip(truth + noise, 0.0, 1.0)
    first, second = (evaluate(labels, p, metrics=["auc"], n_bootstrap=40) for p in (blurred, truth))
    assert compare_evaluations(first, second).verdict("auc") == "better"


def test_other_rows_are_refused(log):
    labels, truth = log
    first = evaluate(labels, truth)
    with pytest.raises(
        InvalidInput, match="second: got an evaluation with other labels; expected two forecasts of the same"
    ):
        compare_evaluations(first, evaluate(1.0 - labels, truth))
    with pytest.raises(InvalidInput, match="an evaluation with other weights"):
        compare_evaluations(first, evaluate(labels, truth, weights=np.ones_like(truth)))
    with pytest.raises(InvalidInput, match="second: got seed 1 and n_bootstrap 200; expected those of the first"):
        compare_evaluations(first, evaluate(labels, truth, seed=1))


@pytest.mark.parametrize(
    ("n_rows", "n_positive", "verdict"),
    [(24, 12, "cannot tell"), (49, 25, "cannot tell"), (60, 19, "cannot tell"), (50, 25, "better")],
)
def test_on_too_few_rows_nothing_is_claimed(n_rows, n_positive, verdict):
    labels = np.arange(n_rows) < n_positive
    better = np.where(labels, 0.8, 0.2)
    found = compare_evaluations(evaluate(labels, np.full(n_rows, 0.5)), evaluate(labels, better))
    assert found.verdict("log_loss") == verdict
    assert bool(found.too_few) == (verdict == "cannot tell")
    if found.too_few:
        assert found.describe("log_loss") == "cannot tell"


def test_many_rows_of_few_users_are_few_observations():
    labels = np.arange(4_000) % 2
    first, second = (evaluate(labels, np.where(labels, p, 1.0 - p), groups=np.arange(4_000) % 49) for p in (0.5, 0.8))
    assert compare_evaluations(first, second).verdict("log_loss") == "cannot tell"
    assert compare_evaluations(first, second).too_few.startswith("49 groups")
