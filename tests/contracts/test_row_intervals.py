"""An interval per row, for every method that has one; the others refuse by name."""

from itertools import pairwise

import numpy as np
import pytest

import monocal
from monocal.calibrators import CALIBRATORS, calibrator
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.scores import logit, row_intervals, sigmoid
from monocal.lab.simulator import WORLDS, simulate_log
from monocal.neural.base import NeuralCalibrator

WITH_INTERVAL = ["wide_logistic", *(name for name, kind in CALIBRATORS.items() if issubclass(kind, NeuralCalibrator))]


@pytest.fixture
def fitted(quick):
    def fit(method):
        log = simulate_log(1500, seed=3)
        features = np.ascontiguousarray(log.features[:, [1, 2]])
        one = quick(method).fit(log.scores, log.labels, features=features, times=log.times)
        return one, Dataset.of(log.scores[:200], features=features[:200])

    return fit


@pytest.mark.parametrize("method", WITH_INTERVAL)
def test_ends_enclose_the_forecast_and_widen_with_the_level(fitted, method):
    one, rows = fitted(method)
    before = one.predict_data(rows)
    known = one.logit_variance(rows)
    assert np.isfinite(known.variances).all()
    assert (known.variances > 0.0).all()
    found = [row_intervals(before, known, level) for level in (0.1, 0.5, 0.9, 0.99)]
    for interval in found:
        assert (interval.lower <= interval.probabilities).all()
        assert (interval.probabilities <= interval.upper).all()
    for narrow, wide in pairwise(found):
        assert (wide.lower <= narrow.lower).all()
        assert (wide.upper >= narrow.upper).all()
    np.testing.assert_array_equal(one.predict_data(rows), before)
    again = type(one)(**one.get_params(deep=False)).restore(one.state())
    np.testing.assert_array_equal(again.logit_variance(rows).variances, known.variances)


@pytest.mark.parametrize("method", [name for name in CALIBRATORS if name not in WITH_INTERVAL])
def test_a_method_without_intervals_refuses_by_name(fitted, method):
    one, rows = fitted(method)
    with pytest.raises(InvalidInput, match=f"interval: got the method '{method}'"):
        one.logit_variance(rows)


def test_an_unseen_value_is_known_less_than_a_rare_one_and_that_less_than_a_frequent_one():
    log = simulate_log(20_000, seed=0)
    sites = np.ascontiguousarray(log.features[:, :1])
    one = calibrator("wide_logistic", l2="auto").fit(log.scores, log.labels, features=sites)
    counts = np.bincount(sites[:, 0])
    rare, frequent = int(np.flatnonzero(counts == counts[1:][counts[1:] > 0].min())[-1]), int(np.argmax(counts))
    rows = Dataset.of(np.full(3, 0.1), features=np.array([[0], [rare], [frequent]]))
    unseen, once, often = one.logit_variance(rows).variances
    assert unseen > once > often


def test_an_effect_that_is_half_carried_is_known_less_than_one_that_lasts():
    """And an unseen value of it differs less from others."""
    log = simulate_log(20_000, seed=0)
    sites = np.ascontiguousarray(log.features[:, :1])
    found = {}
    for share in (1.0, 0.5):
        one = calibrator("wide_logistic", l2=5.0, carry={0: share}).fit(log.scores, log.labels, features=sites)
        one.unexplained_ = {**one.unexplained_, **dict.fromkeys(("of_time", "of_score", "of_fields"), np.zeros(1))}
        rows = Dataset.of(np.full(2, 0.1), features=np.array([[0], [int(np.argmax(np.bincount(sites[:, 0])))]]))
        found[share] = one.logit_variance(rows).variances
    assert found[0.5][1] > 2.0 * found[1.0][1]
    assert found[0.5][0] == pytest.approx(0.5 * found[1.0][0], rel=0.05)


def known_of(world, seed, n_rows=50_000, **options):
    """Whether intervals of 90 and 50 % hold the truth of the newer fifth of the rows, from the lowest forecast on."""
    log = simulate_log(n_rows, seed=seed, world=world)
    older, newer = (log.take(part) for part in (slice(0, n_rows * 4 // 5), slice(n_rows * 4 // 5, None)))
    one = calibrator("wide_logistic", l2="auto", carry="auto", **options)
    one.fit(older.scores, older.labels, features=older.features, times=older.times)
    rows = Dataset.of(newer.scores, features=newer.features)
    p, known, truth = one.predict_data(rows), one.logit_variance(rows), newer.true_probabilities
    found = [row_intervals(p, known, level) for level in (0.9, 0.5)]
    return [((ends.lower <= truth) & (truth <= ends.upper))[np.argsort(p)] for ends in found]


@pytest.mark.parametrize("method", ["wide_logistic", "umc"])
def test_numbers_have_intervals_and_a_null_that_was_never_seen_the_widest(method):
    random = np.random.default_rng(0)
    n, n_fit = 6_000, 5_000
    price, z = random.normal(10.0, 3.0, n), random.normal(-1.5, 1.0, n)
    truth = sigmoid(z + np.sin(price / 2.0))
    log = {"z": z, "click": (random.random(n) < truth).astype(int), "price": price, "ad": random.integers(0, 20, n)}
    older, newer = ({name: column[part] for name, column in log.items()} for part in (slice(n_fit), slice(n_fit, n)))
    roles = {"score": "z", "scores_are": "logit", "label": "click", "fields": ["ad"], "numeric": ["price"]}
    chosen = calibrator(method, l2="auto", **({"n_epochs": 2} if method == "umc" else {}))
    model = monocal.fit(older, method=chosen, **roles)
    found, unknown = (model.predict(rows, interval=0.9) for rows in (newer, newer | {"price": [None] * (n - n_fit)}))
    inside = (found.lower <= truth[n_fit:]) & (truth[n_fit:] <= found.upper)
    assert inside.mean() > 0.8
    width, of_nulls = (logit(interval.upper) - logit(interval.lower) for interval in (found, unknown))
    assert (of_nulls > width).all()


def test_most_true_probabilities_lie_inside_and_a_curve_of_the_score_costs_no_coverage():
    """Of the simulator's own world; the committed table says where it is off."""
    with_line, with_curve = (known_of("default", 0, base=base) for base in ("slope", "auto"))
    for level, line, curve in zip((0.9, 0.5), with_line, with_curve, strict=True):
        assert level - 0.1 < line.mean() < level + 0.08
        # forecasts that a curve brings nearer to the truth lie inside no less often than before
        assert line.mean() - 0.01 < curve.mean() < line.mean() + 0.05


def test_low_scores_are_covered_where_slopes_differ():
    """One variance for all rows held 66 % of the lowest tenth: few of its rows are positive, so it hardly counts."""
    inside, _ = known_of("field_slope", 4)
    assert inside[:1_000].mean() > 0.8
    assert inside.mean() > 0.85


def test_shocks_are_as_wide_as_they_were():
    """Residuals over p (1 − p) show less of a spread than there is: without its correction 84 % lay inside."""
    inside, _ = known_of(WORLDS["drifting"].with_seed(405), 4)
    assert 0.86 < inside.mean() < 0.95


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, True, "0.9"])
def test_a_level_is_a_share(fitted, level):
    one, rows = fitted("wide_logistic")
    with pytest.raises(InvalidInput, match="interval"):
        row_intervals(one.predict_data(rows), one.logit_variance(rows), level)
