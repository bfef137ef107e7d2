"""The noise floor is where perfect forecasts land."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.metrics import METRICS, Forecast, metric, noise_floor
from monocal.metrics.order import REPLAY_CELLS
from monocal.testing.metric_laws import sample_forecast

_FAST = {name: metric(name) if name != "mvce" else metric(name, parts=50) for name in METRICS}


def test_a_perfect_forecast_lands_on_its_floor():
    draws = noise_floor(_FAST, sample_forecast(3000, seed=0), n_draws=60)
    found = {name: [] for name in METRICS}
    for seed in range(20):
        rows = sample_forecast(3000, seed=seed)
        for name, chosen in _FAST.items():
            found[name].append(chosen.of(rows).number)
    for name in METRICS:
        spread = np.hypot(np.std(found[name]), np.std(draws[name]))
        assert abs(np.mean(found[name]) - np.mean(draws[name])) < 1.5 * spread, name


def test_a_biased_forecast_lies_above_its_floor():
    rng = np.random.default_rng(1)
    p = rng.beta(2.0, 8.0, 5000)
    rows = Forecast.of(rng.random(5000) < 0.7 * p, p, fields={"a": rng.integers(0, 20, 5000)})
    wanted = {name: metric(name) for name in ("ece", "adaptive_ece", "fece", "frce", "cal_n", "smooth_ece")}
    draws = noise_floor(wanted, rows, n_draws=40)
    for name, chosen in wanted.items():
        assert chosen.of(rows).number > draws[name].max(), name


@pytest.mark.parametrize("name", [name for name in METRICS if name != "mvce"])
def test_every_draw_is_the_metric_on_redrawn_labels(name):
    rows = sample_forecast(500, seed=2)
    draws = noise_floor({name: metric(name)}, rows, n_draws=3, seed=7)[name]
    rng = np.random.default_rng([7, 2])
    for draw in draws:
        labels = (rng.random(500) < rows.probabilities).astype(float)
        assert metric(name).of(rows.with_labels(labels)).number == pytest.approx(draw, rel=1e-9)


def test_many_distinct_predictions_share_ranks_within_the_stated_error():
    rng = np.random.default_rng(8)
    p = rng.beta(1.0, 10.0, 50_000)
    rows = Forecast.of(rng.random(50_000) < p, p)
    for name, tolerance in (("auc", 1e-4), ("adaptive_ece", 2 * 14 / REPLAY_CELLS)):
        chosen = metric(name)
        replayed = chosen.value(chosen.summary.replay(rows).relabelled(np.flatnonzero(rows.labels)))
        assert 0.0 < abs(replayed.number - chosen.of(rows).number) < tolerance, name


def test_weights_enter_the_floor():
    rows = sample_forecast(500, seed=3)
    heavy = rows.with_weights(np.where(np.arange(500) < 20, 100.0, 1.0))
    wanted = {"fece": metric("fece")}
    assert noise_floor(wanted, heavy)["fece"].mean() > 2.0 * noise_floor(wanted, rows)["fece"].mean()


def test_labels_are_not_read():
    rows = sample_forecast(300, seed=4)
    opposite = rows.with_labels(1.0 - rows.labels)
    one, other = (noise_floor(_FAST, forecast, n_draws=5) for forecast in (rows, opposite))
    for name in METRICS:
        assert np.array_equal(one[name], other[name], equal_nan=True), name


def test_constant_predictions_have_the_floor_of_a_mean():
    rows = Forecast.of(np.zeros(2000), np.full(2000, 0.3))
    wanted = {"ece": metric("ece"), "adaptive_ece": metric("adaptive_ece")}
    draws = noise_floor(wanted, rows, n_draws=300)
    expected = np.sqrt(0.21 / 2000 * 2 / np.pi)
    assert draws["ece"].mean() == pytest.approx(expected, rel=0.15)
    # ties are shared evenly, so fifteen equal-mass bins of one prediction are one bin
    assert np.allclose(draws["ece"], draws["adaptive_ece"])


def test_too_few_draws_are_refused():
    with pytest.raises(InvalidInput, match="n_floor: got 0; expected at least 2"):
        noise_floor({"ece": metric("ece")}, sample_forecast(10, seed=0), n_draws=0)
