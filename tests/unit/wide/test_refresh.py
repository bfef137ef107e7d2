"""Refreshing a calibrator: against a filter by hand, a re-fit, and known movements."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput
from monocal.core.fields import FieldSchema
from monocal.core.scores import sigmoid
from monocal.wide.intervals import values_information
from monocal.wide.refresh import SHOCKS, WALKS, posterior_mean_rates, predict_step, update_step

REFRESHED = ("platt", "isotonic", "wide_logistic", "umc")


def world(random, n, level=0.0, shifts=None, slope=1.0):
    z = random.normal(-2.0, 1.0, n)
    field = random.integers(1, 30, n)
    truth = slope * z + level + (0.0 if shifts is None else shifts[field])
    return z, (random.random(n) < sigmoid(truth)).astype(float), field[:, None].astype(np.int32)


def test_the_filter_is_kalmans():
    # by hand: variance 1/4 + 0.04 before, noise 1/100 + 0.09
    mean, variance = predict_step(np.array([1.0]), np.array([4.0]), np.array([0.04]), np.zeros(1))
    assert (mean[0], variance[0]) == (1.0, pytest.approx(0.29))
    after, precision, evidence = update_step(mean, variance, np.array([2.0]), np.array([100.0]), np.array([0.09]))
    assert after[0] == pytest.approx(1.0 + 0.29 / 0.39)
    assert precision[0] == pytest.approx(1 / 0.29 + 1 / 0.1)
    assert evidence[0] == pytest.approx(-0.5 * np.log(0.39) - 0.5 / 0.39)


def test_without_rows_an_effect_fades_to_what_its_field_is():
    mean, precision = np.array([0.8]), np.array([400.0])
    for _ in range(400):
        mean, variance = predict_step(mean, precision, np.array([0.01]), np.array([10.0]))
        mean, precision, _ = update_step(mean, variance, np.zeros(1), np.zeros(1), np.zeros(1))
    assert abs(mean[0]) < 1e-6
    assert precision[0] == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize(("walk", "shock"), [(0.2, 0.0), (0.0, 0.3)])
def test_the_rate_that_made_the_days_is_found(walk, shock):
    random = np.random.default_rng(1)
    n_values, n_days, information = 100, 30, 200.0
    lasting = random.normal(0.0, 0.5, n_values)
    means, precisions = np.zeros((WALKS.size, n_values)), np.full((WALKS.size, n_values), 4.0)
    evidence = np.zeros((WALKS.size, 1))
    for _ in range(n_days):
        lasting = lasting + walk * random.standard_normal(n_values)
        observed = lasting + shock * random.standard_normal(n_values) + random.standard_normal(n_values) / 200.0**0.5
        means, variances = predict_step(means, precisions, WALKS[:, None] ** 2, np.zeros(n_values))
        seen_now = update_step(means, variances, observed, np.full(n_values, information), SHOCKS[:, None] ** 2)
        means, precisions, gained = seen_now
        evidence += gained.sum(axis=1, keepdims=True)
    rates = posterior_mean_rates(evidence)
    assert np.sqrt(rates.walk[0]) == pytest.approx(walk, abs=0.05)
    assert np.sqrt(rates.shock[0]) == pytest.approx(shock, abs=0.05)


@pytest.mark.parametrize("method", ["platt", "wide_logistic"])
def test_in_a_world_that_stands_still_refreshes_come_to_the_fit_on_everything(method):
    random = np.random.default_rng(2)
    shifts = np.random.default_rng(3).normal(0.0, 0.5, 30)
    days = [world(random, 8_000, 0.3, shifts, slope=1.3) for _ in range(9)]
    options = {} if method == "platt" else {"l2": "auto"}
    z, y, x = days[0]
    going_on = calibrator(method, **options).fit(z, y, features=x, scores_are="logit")
    for z, y, x in days[1:]:
        going_on = going_on.refresh(z, y, features=x)
    z, y, x = (np.concatenate(parts) for parts in zip(*days, strict=True))
    whole = calibrator(method, **options).fit(z, y, features=x, scores_are="logit")
    p, q = going_on.predict(z, features=x), whole.predict(z, features=x)
    assert float(np.sqrt(np.mean((np.log(p / (1 - p)) - np.log(q / (1 - q))) ** 2))) < 0.05


@pytest.mark.parametrize("method", REFRESHED)
def test_a_level_that_moved_and_stays_is_followed(method):
    random = np.random.default_rng(4)
    options = {"n_epochs": 1, "show_progress": False} if method == "umc" else {}
    z, y, x = world(random, 12_000)
    going_on = calibrator(method, **options).fit(z, y, features=x, scores_are="logit")
    before = going_on.predict(z, features=x)
    for _ in range(5):
        z, y, x = world(random, 6_000, level=0.6)
        old = going_on.predict(z, features=x)
        following = going_on.refresh(z, y, features=x)
        assert np.array_equal(going_on.predict(z, features=x), old)
        going_on = following
    z, y, x = world(random, 20_000, level=0.6)
    p = going_on.predict(z, features=x)
    assert p.sum() / y.sum() == pytest.approx(1.0, abs=0.06)
    assert before.mean() < p.mean()


def test_one_value_that_moved_is_followed_and_the_others_stay():
    random = np.random.default_rng(5)
    shifts = np.zeros(30)
    z, y, x = world(random, 30_000, shifts=shifts)
    going_on = calibrator("wide_logistic", l2="auto").fit(z, y, features=x, scores_are="logit")
    before = going_on.shifts_.copy()
    shifts[7] = 1.0
    for _ in range(6):
        z, y, x = world(random, 15_000, shifts=shifts)
        going_on = going_on.refresh(z, y, features=x)
    change = going_on.shifts_ - before
    assert change[7] - np.median(change) > 0.7
    assert np.abs(np.delete(change, 7) - np.median(change)).max() < 0.35
    assert going_on.last_update_["fields"][0]["walk"] > 0.0


def test_new_values_get_a_shift_of_their_own():
    random = np.random.default_rng(6)
    z, y, x = world(random, 10_000)
    first = calibrator("wide_logistic").fit(z, y, features=x, scores_are="logit")
    z, y, x = world(random, 10_000)
    x[:3_000] = 40
    y[:3_000] = (random.random(3_000) < sigmoid(z[:3_000] + 1.0)).astype(float)
    following = first.refresh(z, y, features=x)
    assert following.predict([-1.0], features=[[40]], scores_are="logit")[0] == pytest.approx(0.5, abs=0.08)
    assert first.predict([-1.0], features=[[40]], scores_are="logit")[0] < 0.35


@pytest.mark.parametrize("method", ["platt", "isotonic", "wide_logistic"])
def test_a_refreshed_calibrator_is_saved_and_goes_on_alike(method):
    random = np.random.default_rng(7)
    z, y, x = world(random, 4_000)
    one = (
        calibrator(method)
        .fit(z, y, features=x, scores_are="logit")
        .refresh(*world(random, 3_000)[:2], features=x[:3_000])
    )
    again = calibrator(method).restore(one.state())
    z, y, x = world(random, 3_000)
    assert np.array_equal(
        one.refresh(z, y, features=x).predict(z, features=x), again.refresh(z, y, features=x).predict(z, features=x)
    )


def test_order_is_kept_after_refreshes():
    random = np.random.default_rng(8)
    z, y, x = world(random, 4_000)
    for method in ("platt", "isotonic", "wide_logistic"):
        going_on = calibrator(method).fit(z, y, features=x, scores_are="logit")
        for _ in range(3):
            # higher scores go with fewer positives: the slope falls, and never below 0
            a, b, c = world(random, 4_000, slope=-1.0)
            going_on = going_on.refresh(a, b, features=c)
        sweep = going_on.predict(np.linspace(-8, 8, 2_000), features=np.full((2_000, 1), 3), scores_are="logit")
        assert np.all(np.diff(sweep) >= 0.0), method


def test_a_method_without_refresh_says_so():
    random = np.random.default_rng(9)
    z, y, x = world(random, 2_000)
    for method in ("gauss", "beta", "histogram"):
        fitted = calibrator(method).fit(z, y, features=x, scores_are="logit")
        with pytest.raises(InvalidInput, match=f"the method '{method}'; expected one that can go on"):
            fitted.refresh(z, y, features=x)


def test_information_of_values_has_the_same_bits_in_any_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    features, curvature = rng.integers(0, 5, (1_000, 2)).astype(np.int32), rng.random(1_000)
    plain = np.concatenate([np.bincount(features[:, field], curvature, 5) for field in range(2)])
    plain[[0, 5]] = 0.0
    for block in (1 << 20, 7):
        monkeypatch.setattr("monocal.wide.intervals._BLOCK_ROWS", block)
        found = values_information(curvature, features, FieldSchema.of([5, 5]))
        assert found.tobytes() == plain.tobytes()
