"""Counting traffic without slowing it down."""

import math

import numpy as np
import pytest

from monocal.serving import Engine, Request
from monocal.serving.runtime.drift import RecentSums, population_stability, running_pcoc, stability_noise
from monocal.serving.runtime.live_metrics import LiveMetrics

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]


def told(metrics):
    """Returns a scrape as name with labels to value."""
    lines = metrics.exposition({"model": "v1"}).decode().splitlines()
    return {head: float(value) for head, _, value in (one.rpartition(" ") for one in lines if not one.startswith("#"))}


@pytest.fixture
def metrics(model):
    made = LiveMetrics()
    made.follow(Engine(model))
    return made


def answer_of(model, scores, **fields):
    given = {name: fields.get(name, "site_1") for name in FIELDS}
    return Engine(model).calibrate(Request({"click": scores}, shared=given))


def test_unseen_share_is_of_values_per_field(model, metrics):
    metrics.observe(answer_of(model, [0.1] * 3, site_id="site_1"))
    metrics.observe(answer_of(model, [0.1], site_id="never seen"))
    found = told(metrics)
    assert found['monocal_field_unseen_share{field="site_id"}'] == pytest.approx(0.25)
    assert found["monocal_rows_total"] == 4.0


def test_a_new_model_starts_the_drift_comparison_anew(model, metrics):
    metrics.observe(answer_of(model, [0.99] * 50))
    assert told(metrics)['monocal_score_drift_psi{task="click"}'] > 1.0
    metrics.follow(Engine(model, version="another"))
    found = told(metrics)
    assert math.isnan(found['monocal_score_drift_psi{task="click"}'])
    assert found["monocal_rows_total"] == 50.0


def test_answers_of_a_model_that_is_gone_are_not_held_against_the_new_one(model, metrics):
    late = answer_of(model, [0.99])
    metrics.follow(Engine(model, version="another"))
    metrics.observe(late)
    assert math.isnan(told(metrics)['monocal_score_drift_psi{task="click"}'])


def test_score_bins_are_those_of_the_fit(model, metrics, log):
    scores = log.column("pctr").to_pylist()
    engine = Engine(model)
    for start in range(0, 4000, 500):
        rows = log.slice(start, 500).to_pydict()
        fields = {name: rows[name] for name in FIELDS}
        metrics.observe(engine.calibrate(Request({"click": scores[start : start + 500]}, fields=fields)))
    found = told(metrics)
    counts = [found[f'monocal_score_window_rows{{bin="{place}",task="click"}}'] for place in range(20)]
    expected = np.array(model.info["tasks"]["click"]["score_shares"]) * 4000
    assert counts == pytest.approx(expected)
    assert found['monocal_score_drift_psi{task="click"}'] < 1e-4


def test_pcoc_is_undefined_until_a_positive_comes_back(metrics):
    metrics.observe_feedback("click", np.array([0.2, 0.4]), np.zeros(2))
    assert math.isnan(told(metrics)['monocal_pcoc{task="click"}'])
    metrics.observe_feedback("click", np.array([0.6]), np.ones(1))
    assert told(metrics)['monocal_pcoc{task="click"}'] == pytest.approx(1.2)


def test_every_model_is_named_with_its_version(metrics):
    assert told(metrics)['monocal_model_info{model="model",version="v1"}'] == 1.0


def test_recent_sums_forget_what_is_long_ago():
    sums = RecentSums(1, window_rows=100)
    for _ in range(50):
        sums.add(np.array([1000.0]), 100)
    for _ in range(50):
        sums.add(np.array([0.0]), 100)
    assert sums.values[0] < 1e-6


def test_stability_is_its_formula_and_positive_when_shares_differ():
    p = np.array([0.25, 0.75])
    q = (np.array([60.0, 40.0]) + 0.5) / 101.0
    expected = float(((q - p) * np.log(q / p)).sum())
    assert population_stability(np.array([60.0, 40.0]), p) == pytest.approx(expected)
    assert expected > 0.0
    assert math.isnan(population_stability(np.zeros(2), p))


def test_stability_noise_is_what_undrifted_samples_show():
    rng = np.random.default_rng(0)
    p = np.full(20, 0.05)
    seen = [population_stability(rng.multinomial(2000, p).astype(float), p) for _ in range(300)]
    assert np.mean(seen) == pytest.approx(stability_noise(2000, 1e12, 20), rel=0.1)
    assert math.isnan(stability_noise(0, 100, 20))


def test_running_pcoc_of_nothing_is_nan():
    assert math.isnan(running_pcoc(0.0, 0.0))
