"""A row with soft label q is q positives and 1 − q negatives, for every calibrator and every metric."""

import numpy as np
import pytest

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.core.errors import InvalidInput
from monocal.lab.simulator import simulate_log
from monocal.metrics import METRICS, Forecast, metric
from monocal.metrics.resample import noise_floor, resampling_blocks

QUARTERS = 4


@pytest.fixture(scope="module")
def rows():
    """Labels in quarters, none to all of them positive."""
    log = simulate_log(1500, seed=3)
    drawn = np.random.default_rng(0).binomial(QUARTERS, np.sqrt(log.true_probabilities))
    soft = np.where(np.arange(1500) % 3 == 0, log.labels, drawn / QUARTERS)
    return log.scores, soft, np.ascontiguousarray(log.features[:, [2, 5]])


def as_two_rows(soft):
    """Every row first as a positive and then as a negative, with their weights."""
    places = np.repeat(np.arange(soft.size), 2)
    labels = np.tile([1.0, 0.0], soft.size)
    weights = np.where(labels == 1.0, soft[places], 1.0 - soft[places])
    return places[weights > 0.0], labels[weights > 0.0], weights[weights > 0.0]


@pytest.mark.parametrize("method", CALIBRATORS)
def test_a_fit_on_soft_labels_is_the_fit_on_weighted_rows(rows, quick, method):
    scores, soft, features = rows
    at, labels, weights = as_two_rows(soft)
    one = quick(method).fit(scores, soft, features=features, soft_labels=True)
    two = quick(method).fit(scores[at], labels, features=features[at], weights=weights)
    np.testing.assert_array_equal(one.predict(scores, features=features), two.predict(scores, features=features))


@pytest.mark.parametrize("method", [name for name in CALIBRATORS if calibrator(name).tags.weights_exactly])
def test_a_fit_on_quarters_is_the_fit_on_every_row_four_times(rows, quick, method):
    """Without any weights: positives as often as the label has quarters."""
    scores, soft, features = rows
    at = np.repeat(np.arange(soft.size), QUARTERS)
    labels = (np.tile(np.arange(QUARTERS), soft.size) < soft[at] * QUARTERS).astype(float)
    one = quick(method).fit(scores, soft, features=features, soft_labels=True, weights=np.full(soft.size, QUARTERS))
    four = quick(method).fit(scores[at], labels, features=features[at])
    np.testing.assert_allclose(
        one.predict(scores, features=features), four.predict(scores, features=features), atol=1e-6
    )


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_of_soft_labels_is_that_of_every_row_four_times(rows, name):
    scores, soft, features = rows
    at = np.repeat(np.arange(soft.size), QUARTERS)
    labels = (np.tile(np.arange(QUARTERS), soft.size) < soft[at] * QUARTERS).astype(float)

    def of(y, which, **options):
        fields = {"country": features[which, 0], "device": features[which, 1]}
        return Forecast.of(y, scores[which], fields=fields, groups=which_group[which], **options)

    which_group = np.arange(soft.size) // 10
    once = of(soft, np.arange(soft.size), soft_labels=True, weights=np.full(soft.size, float(QUARTERS)))
    found, expected = metric(name).of(once), metric(name).of(of(labels, at))
    assert found.number == pytest.approx(expected.number, rel=1e-9, abs=1e-12)
    assert found.reason == expected.reason


def test_hard_labels_are_the_same_bits_with_and_without_the_option(rows):
    scores, _, features = rows
    labels = simulate_log(1500, seed=3).labels
    soft, hard = (Forecast.of(labels, scores, soft_labels=asked) for asked in (True, False))
    assert soft.weights is None
    assert soft.units is None
    np.testing.assert_array_equal(soft.labels, hard.labels)
    one, two = (
        calibrator("wide_logistic").fit(scores, labels, features=features, soft_labels=asked) for asked in (True, False)
    )
    np.testing.assert_array_equal(one.shifts_, two.shifts_)


def test_a_soft_label_is_one_observation():
    """Its two pieces are resampled together, and redrawn as one coin: not with half the noise."""
    random = np.random.default_rng(0)
    soft, p = random.uniform(0.3, 0.7, 2000), np.full(2000, 0.5)
    rows = Forecast.of(soft, p, soft_labels=True)
    blocks, _ = resampling_blocks(rows, seed=0)
    assert rows.n_rows == 4000
    np.testing.assert_array_equal(blocks[::2], blocks[1::2])
    hard = Forecast.of((soft > 0.5).astype(float), p)
    of_soft, of_hard = (noise_floor({"pcoc": metric("pcoc")}, sample, 200)["pcoc"].std() for sample in (rows, hard))
    assert of_soft == pytest.approx(of_hard, rel=0.01)


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan")])
def test_labels_outside_are_refused_and_soft_ones_unless_asked(value):
    with pytest.raises(InvalidInput, match="labels"):
        calibrator("platt").fit([0.1, 0.2, 0.3], [0.0, 1.0, value], soft_labels=True)
    with pytest.raises(InvalidInput, match="soft_labels=True"):
        calibrator("platt").fit([0.1, 0.2], [0.0, 0.5])
