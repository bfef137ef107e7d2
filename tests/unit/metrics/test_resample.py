"""Intervals cover, respect groups and repeat with their seed; floors are where perfect forecasts land."""

import math

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.metrics import METRICS, Forecast, bootstrap, centred_interval, metric, noise_floor
from monocal.metrics import resample as resample_module
from monocal.metrics.order import REPLAY_CELLS
from monocal.metrics.resample import MOST_BLOCKS, pack, resampling_blocks, unpack
from monocal.testing.metric_laws import sample_forecast

EVERY = {name: metric(name) for name in METRICS}


def test_the_value_always_lies_inside():
    rows = sample_forecast(500, seed=0)
    replicates = bootstrap(EVERY, rows, n_replicates=40)
    for name, chosen in EVERY.items():
        value = chosen.of(rows).number
        low, high = centred_interval(value, replicates[name], 0.95, chosen.limits)
        assert chosen.limits[0] <= low <= value <= high <= chosen.limits[1], name
        assert low < high


@pytest.mark.parametrize("name", ["pcoc", "log_loss", "auc", "ece", "fece"])
def test_intervals_cover_the_expected_value_at_this_size(name):
    rng = np.random.default_rng(1)
    chosen = metric(name) if name != "ece" else metric(name, bins=10)
    values, intervals = [], []
    for log in range(80):
        p, site = rng.beta(2.0, 8.0, 1500), rng.integers(0, 8, 1500)
        rows = Forecast.of(rng.random(1500) < p * (0.6 + 0.1 * site), p, fields={"site": site})
        values.append(chosen.of(rows).number)
        replicates = bootstrap({name: chosen}, rows, n_replicates=60, seed=log)[name]
        intervals.append(centred_interval(values[-1], replicates, 0.9))
    covered = np.mean([low <= np.mean(values) <= high for low, high in intervals])
    # 80 logs put a standard error of 0.034 on a coverage of 0.9
    assert 0.8 <= covered <= 0.99


def test_groups_are_resampled_whole():
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(300), 10)
    p, labels = np.full(3000, 0.2), (rng.random(300) < 0.2)[users].astype(float)
    alone, together = (
        bootstrap({"pcoc": metric("pcoc")}, Forecast.of(labels, p, groups=groups))["pcoc"].std()
        for groups in (None, users)
    )
    # ten equal labels per user: the standard error grows by about the root of ten
    assert 2.3 < together / alone < 4.3


@pytest.mark.parametrize("grouped", [False, True])
def test_blocks_are_even_and_never_split_a_group(grouped):
    groups = np.random.default_rng(3).integers(0, 5000, 20_000) if grouped else None
    rows = Forecast.of(np.zeros(20_000), np.full(20_000, 0.1), groups=groups)
    blocks, n_blocks = resampling_blocks(rows, seed=0)
    assert n_blocks == MOST_BLOCKS
    if groups is None:
        assert np.ptp(np.bincount(blocks)) <= 1
    else:
        assert np.unique(np.stack([groups, blocks]), axis=1).shape[1] == np.unique(groups).size


def test_block_bootstrap_agrees_with_the_row_bootstrap(monkeypatch):
    rows = sample_forecast(4000, seed=4)
    rows = Forecast.of(rows.labels, rows.probabilities, fields=rows.fields)
    expected = {name: metric(name) for name in ("pcoc", "auc", "ece", "frce")}
    blocked = bootstrap(expected, rows, n_replicates=300)
    monkeypatch.setattr(resample_module, "MOST_BLOCKS", rows.n_rows)
    by_row = bootstrap(expected, rows, n_replicates=300)
    for name in expected:
        assert blocked[name].std() == pytest.approx(by_row[name].std(), rel=0.2), name


def test_same_seed_same_replicates_and_global_randomness_untouched():
    rows = sample_forecast(1000, seed=5)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (bootstrap({"ece": metric("ece")}, rows, 20, seed)["ece"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_two_units_are_resampled_and_one_has_no_interval():
    pcoc = {"pcoc": metric("pcoc")}
    two = Forecast.of([0, 1, 1, 0], [0.2, 0.7, 0.4, 0.1], groups=[0, 0, 1, 1])
    one = two.take(slice(0, 2))
    assert np.isfinite(bootstrap(pcoc, two, 20)["pcoc"]).all()
    assert np.isnan(bootstrap(pcoc, one, 20)["pcoc"]).all()
    # nor have replicates most of which are undefined
    assert all(map(math.isnan, centred_interval(1.0, np.array([1.0, np.nan, np.nan, np.nan]))))
    with pytest.raises(InvalidInput, match="n_bootstrap: got 1; expected at least 2"):
        bootstrap(pcoc, two, n_replicates=1)
    with pytest.raises(InvalidInput, match="n_floor: got 0; expected at least 2"):
        noise_floor(pcoc, two, n_draws=0)


def test_high_cardinality_fields_use_sparse_sums():
    rng = np.random.default_rng(6)
    rows = Forecast.of(rng.integers(0, 2, 3000), rng.random(3000), fields={"user": rng.integers(0, 100_000, 3000)})
    chosen = metric("fece")
    count = rng.integers(0, 3, MOST_BLOCKS).astype(float)
    blocks, _ = resampling_blocks(rows, seed=0)
    (state,) = chosen.summary.replay(rows).reweighted(blocks, count[None, :])
    assert chosen.value(state).number == pytest.approx(chosen.of(rows.with_weights(count[blocks])).number)


def test_a_perfect_forecast_lands_on_its_floor():
    draws = noise_floor(EVERY, sample_forecast(3000, seed=0), n_draws=60)
    perfect = [sample_forecast(3000, seed=seed) for seed in range(20)]
    for name, chosen in EVERY.items():
        found = [chosen.of(rows).number for rows in perfect]
        spread = np.hypot(np.std(found), np.std(draws[name]))
        assert abs(np.mean(found) - np.mean(draws[name])) < 1.5 * spread, name


@pytest.mark.parametrize("name", METRICS)
def test_every_draw_is_the_metric_on_redrawn_labels_and_the_old_ones_are_not_read(name):
    rows = sample_forecast(500, seed=2)
    rows = rows.with_weights(np.where(np.arange(500) < 20, 100.0, 1.0)).with_labels(1.0 - rows.labels)
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


def test_constant_predictions_have_the_floor_of_a_mean():
    rows = Forecast.of(np.zeros(2000), np.full(2000, 0.3))
    draws = noise_floor({name: metric(name) for name in ("ece", "adaptive_ece")}, rows, n_draws=300)
    assert draws["ece"].mean() == pytest.approx(np.sqrt(0.21 / 2000 * 2 / np.pi), rel=0.15)
    # ties are shared evenly, so fifteen equal-mass bins of one prediction are one bin
    assert np.allclose(draws["ece"], draws["adaptive_ece"])


@pytest.mark.parametrize("name", ["brier", "auc", "auc of 64 cells", "adaptive_ece"])
def test_a_packed_state_has_the_same_value_and_merges(name):
    one = metric("auc", cells=64) if name.endswith("cells") else metric(name)
    rows = Forecast.of(np.arange(50) % 3 == 0, np.linspace(0.01, 0.9, 50), weights=np.arange(50) % 4 * 0.25)
    parts = [one.summarize(rows.take(part)) for part in (slice(0, 20), slice(20, 50))]
    assert one.value(one.merge(*(unpack(pack(part)) for part in parts))) == one.value(one.merge(*parts))


def test_states_that_grow_with_the_rows_are_not_packed():
    with pytest.raises(InvalidInput, match="GroupedCells"):
        pack(metric("gauc").summarize(Forecast.of([0, 1], [0.2, 0.3], groups=[0, 0])))
