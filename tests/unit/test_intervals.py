"""Intervals cover, respect groups, and repeat with their seed."""

import math

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.metrics import METRICS, Forecast, bootstrap, centred_interval, metric
from monocal.metrics import resample as intervals_module
from monocal.metrics.resample import MOST_BLOCKS, resampling_blocks
from monocal.testing.metric_laws import sample_forecast


def test_the_value_always_lies_inside():
    rows = sample_forecast(500, seed=0)
    metrics = {name: metric(name) for name in METRICS}
    replicates = bootstrap(metrics, rows, n_replicates=40)
    for name, chosen in metrics.items():
        value = chosen.of(rows).number
        low, high = centred_interval(value, replicates[name], 0.95, chosen.limits)
        assert low <= value <= high
        assert chosen.limits[0] <= low < high <= chosen.limits[1], name


@pytest.mark.parametrize("name", ["pcoc", "log_loss", "auc", "ece", "fece"])
def test_intervals_cover_the_expected_value_at_this_size(name):
    rng = np.random.default_rng(1)
    chosen = metric(name) if name != "ece" else metric(name, bins=10)
    n_logs, n_rows = 80, 1500
    values, intervals = [], []
    for log in range(n_logs):
        p = rng.beta(2.0, 8.0, n_rows)
        site = rng.integers(0, 8, n_rows)
        rows = Forecast.of(rng.random(n_rows) < p * (0.6 + 0.1 * site), p, fields={"site": site})
        values.append(chosen.of(rows).number)
        replicates = bootstrap({name: chosen}, rows, n_replicates=60, seed=log)[name]
        intervals.append(centred_interval(values[-1], replicates, 0.9))
    covered = np.mean([low <= np.mean(values) <= high for low, high in intervals])
    # 80 logs put a standard error of 0.034 on a coverage of 0.9
    assert 0.8 <= covered <= 0.99


def test_groups_are_resampled_whole():
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(300), 10)
    p = np.full(3000, 0.2)
    happy = rng.random(300) < 0.2
    labels = happy[users].astype(float)
    expected = {"pcoc": metric("pcoc")}
    alone = bootstrap(expected, Forecast.of(labels, p))["pcoc"].std()
    together = bootstrap(expected, Forecast.of(labels, p, groups=users))["pcoc"].std()
    # ten equal labels per user: the standard error grows by about the root of ten
    assert 2.3 < together / alone < 4.3


@pytest.mark.parametrize("grouped", [False, True])
def test_blocks_are_even_and_never_split_a_group(grouped):
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 5000, 20_000) if grouped else None
    rows = Forecast.of(np.zeros(20_000), np.full(20_000, 0.1), groups=groups)
    blocks, n_blocks = resampling_blocks(rows, seed=0)
    assert n_blocks == MOST_BLOCKS
    if groups is None:
        assert np.ptp(np.bincount(blocks)) <= 1
    else:
        pairs = np.unique(np.stack([groups, blocks]), axis=1)
        assert pairs.shape[1] == np.unique(groups).size


def test_block_bootstrap_agrees_with_the_row_bootstrap(monkeypatch):
    rows = sample_forecast(4000, seed=4)
    rows = Forecast.of(rows.labels, rows.probabilities, fields=rows.fields)
    expected = {name: metric(name) for name in ("pcoc", "auc", "ece", "frce")}
    blocked = bootstrap(expected, rows, n_replicates=300)
    monkeypatch.setattr(intervals_module, "MOST_BLOCKS", rows.n_rows)
    by_row = bootstrap(expected, rows, n_replicates=300)
    for name in expected:
        assert blocked[name].std() == pytest.approx(by_row[name].std(), rel=0.2), name


def test_same_seed_same_replicates_and_global_randomness_untouched():
    rows = sample_forecast(1000, seed=5)
    expected = {"ece": metric("ece")}
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (bootstrap(expected, rows, 20, seed)["ece"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_one_unit_has_no_interval():
    rows = Forecast.of([0, 1], [0.2, 0.7], groups=[4, 4])
    assert np.isnan(bootstrap({"ece": metric("ece")}, rows, 10)["ece"]).all()
    assert all(map(math.isnan, centred_interval(0.1, np.full(10, np.nan))))


def test_mostly_undefined_replicates_give_no_interval():
    replicates = np.array([1.0, np.nan, np.nan, np.nan])
    assert all(map(math.isnan, centred_interval(1.0, replicates)))


def test_high_cardinality_fields_use_sparse_sums():
    rng = np.random.default_rng(6)
    n = 3000
    rows = Forecast.of(rng.integers(0, 2, n), rng.random(n), fields={"user": rng.integers(0, 100_000, n)})
    chosen = metric("fece")
    count = rng.integers(0, 3, MOST_BLOCKS).astype(float)
    blocks, _ = resampling_blocks(rows, seed=0)
    (state,) = chosen.summary.replay(rows).reweighted(blocks, count[None, :])
    assert chosen.value(state).number == pytest.approx(chosen.of(rows.with_weights(count[blocks])).number)


def test_too_few_replicates_are_refused():
    with pytest.raises(InvalidInput, match="n_bootstrap: got 1; expected at least 2 replicates"):
        bootstrap({"ece": metric("ece")}, sample_forecast(10, seed=0), n_replicates=1)
