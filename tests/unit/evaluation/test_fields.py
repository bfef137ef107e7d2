"""Errors by value in the long tail: tests keep their level, intervals cover, and what is planted is found."""

import numpy as np
import pytest
from scipy import stats

from monocal.core.errors import InvalidInput, UnknownName
from monocal.evaluation.cells import dispersion_of, sum_cells
from monocal.evaluation.fields import by_times_seen, field_table
from monocal.evaluation.stats import (
    MatchedCounts,
    levelled,
    matched_counts,
    ratio_interval,
    spread_of,
    two_sided_p_value,
)
from monocal.metrics import Forecast


def test_columns_hold_what_they_say(t10):
    table = field_table(t10.y, t10.s, t10.z, name="z")
    assert table.values == ["a", "b", "c"]
    assert table["n_rows"].tolist() == [4, 3, 3]
    assert table["positives"].tolist() == [0.0, 2.0, 2.0]
    assert table["predicted"] == pytest.approx([1.27, 1.05, 1.80])
    assert np.isnan(table["pcoc"][0])
    assert table["pcoc"][1:] == pytest.approx([0.525, 0.9])
    assert table["pcoc_high"][0] == np.inf
    assert np.isfinite(table["pcoc_shrunk"]).all()
    assert table["bias"] == pytest.approx(table["mean_prediction"] - table["observed_rate"])
    assert table.as_dict()["z"] == ["a", "b", "c"]
    assert str(table).splitlines()[0].split()[0] == "z"
    with pytest.raises(InvalidInput, match=r"confidence: got 1\.5"):
        field_table(t10.y, t10.s, t10.z, confidence=1.5)
    with pytest.raises(UnknownName, match="argument of a forecast: got 'group'.*did you mean 'groups'"):
        field_table(t10.y, t10.s, t10.z, group=t10.z)


def test_equal_predictions_give_the_exact_binomial_test_and_interval():
    labels, p = np.repeat([1.0, 0.0], [3, 37]), np.full(40, 0.2)
    table = field_table(labels, p, np.zeros(40, dtype=int))
    tail = stats.binom(40, 0.2).cdf(3)
    assert table["p_value"][0] == pytest.approx(2 * tail)
    exact = stats.binomtest(3, 40).proportion_ci(0.95)
    assert table["pcoc_low"][0] == pytest.approx(0.2 / exact.high)
    assert table["pcoc_high"][0] == pytest.approx(0.2 / exact.low)


def test_p_values_of_a_calibrated_forecast_are_not_too_small():
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 15.0, 60_000)
    site = rng.integers(0, 3000, 60_000)
    table = field_table(rng.random(60_000) < p, p, site)
    for level in (0.2, 0.05, 0.01):
        assert np.mean(table["p_value"] <= level) <= level * 1.15 + 0.003
    assert table["flagged"].sum() == 0


def test_intervals_cover_the_true_ratio():
    rng = np.random.default_rng(1)
    p = rng.beta(1.0, 9.0, 100_000)
    site = rng.integers(0, 1000, 100_000)
    table = field_table(rng.random(100_000) < p / 1.25, p, site, confidence=0.9)
    assert np.mean((table["pcoc_low"] <= 1.25) & (table["pcoc_high"] >= 1.25)) >= 0.9


def test_shrunk_estimates_are_closer_to_the_truth():
    rng = np.random.default_rng(2)
    n_values = 2000
    factor = rng.gamma(20.0, 1.0 / 20.0, n_values)
    site = np.minimum((rng.pareto(1.0, 200_000) * 20).astype(int), n_values - 1)
    p = rng.beta(1.0, 15.0, 200_000)
    table = field_table(rng.random(200_000) < np.minimum(p * factor[site], 1.0), p, site)
    seen = factor[np.array(table.values)]
    raw = table["positives"] / table["predicted"]
    shrunk = 1.0 / table["pcoc_shrunk"]
    assert np.sqrt(np.mean((shrunk - seen) ** 2)) < 0.5 * np.sqrt(np.mean((raw - seen) ** 2))


@pytest.mark.parametrize("bias", [0.5, 2.0])
def test_a_common_bias_of_sparse_values_is_neither_hidden_nor_taken_for_differences(bias):
    rng = np.random.default_rng(6)
    site = np.minimum((rng.pareto(1.0, 100_000) * 20).astype(int), 30_000)
    p = np.full(100_000, 0.02)
    table = field_table(rng.random(100_000) < p, bias * p, site)
    common, rare = table["n_rows"] > 3_000, table["n_rows"] <= 20
    assert table["pcoc_shrunk"][common] == pytest.approx(table["pcoc"][common], rel=0.1)
    assert np.abs(np.log(table["pcoc_shrunk"][rare])).max() < 1.3


def test_a_bad_value_in_the_tail_is_found():
    rng = np.random.default_rng(3)
    site = np.minimum((rng.pareto(0.7, 100_000) * 3).astype(int), 999)
    p = np.full(100_000, 0.05)
    bad = int(np.bincount(site).argsort()[-50])
    labels = rng.random(100_000) < np.where(site == bad, 0.25, p)
    table = field_table(labels, p, site)
    assert table.worst(5).values[0] == bad
    flagged = np.abs(table["predicted"] - table["positives"])[table["flagged"]]
    assert len(table.worst(1)) == 1
    assert len(table.worst(10_000)) == flagged.size


def test_uneven_weights_widen_the_interval():
    labels, p, site = np.tile([0.0, 0.0, 0.0, 1.0], 50), np.full(200, 0.25), np.zeros(200, dtype=int)
    even = field_table(labels, p, site, weights=np.full(200, 2.0))
    plain = field_table(labels, p, site)
    uneven = field_table(labels, p, site, weights=np.where(np.arange(200) < 20, 20.0, 1.0))
    width = [table["pcoc_high"][0] - table["pcoc_low"][0] for table in (plain, even, uneven)]
    assert width[0] == pytest.approx(width[1])
    assert width[2] > 1.5 * width[0]


def test_predictions_of_exactly_zero_are_judged():
    table = field_table([0, 0, 1, 0], np.zeros(4), ["dead", "dead", "alive", "alive"])
    by_value = dict(zip(table.values, table["p_value"], strict=True))
    assert by_value == {"dead": 1.0, "alive": 0.0}


def test_matched_binomial_tails_are_close_to_the_true_sum_of_coin_flips():
    rng = np.random.default_rng(5)
    p = np.concatenate([np.full(30, 0.02), np.full(10, 0.5)])
    sums = (rng.random((200_000, 40)) < p).sum(axis=1)
    for y in (2, 5, 8, 10):
        counts = matched_counts(*(np.array([x]) for x in (float(y), p.sum(), (p * p).sum(), 1.0)))
        expected = min(1.0, 2 * min(np.mean(sums <= y), np.mean(sums >= y)))
        assert two_sided_p_value(counts)[0] == pytest.approx(expected, abs=0.03)


def test_interval_and_test_agree():
    counts = MatchedCounts(np.arange(0.0, 30.0), np.full(30, 10.0), np.full(30, 100.0))
    low, high = ratio_interval(counts, 0.95)
    excluded = (low > 1.0) | (high < 1.0)
    assert np.array_equal(excluded, two_sided_p_value(counts) < 0.05)


def test_weight_k_is_the_row_k_times():
    labels, p, ids = np.array([1.0, 0.0, 1.0]), np.array([0.2, 0.5, 0.7]), np.array([0, 1, 1])
    weights, values = np.array([3.0, 1.0, 2.0]), np.array([5.0, 1.0, 2.0])
    again = np.repeat(np.arange(3), weights.astype(int))
    weighted = sum_cells(Forecast.of(labels, p, weights=weights), ids, 2, values=values)
    plain = sum_cells(Forecast.of(labels[again], p[again]), ids[again], 2, values=values[again])
    for name in ("weight", "observed", "predicted", "observed_value", "value_gap"):
        assert getattr(weighted, name) == pytest.approx(getattr(plain, name))


def test_groups_whose_rows_agree_widen_the_noise(world):
    truth, labels, rng = world
    whole = np.zeros(40_000, dtype=int)
    alone = Forecast.of(labels, truth, groups=rng.integers(0, 20_000, 40_000))
    assert dispersion_of(alone, whole) == pytest.approx(1.0, abs=0.05)
    copies = np.repeat(np.arange(10_000), 4)
    together = Forecast.of(labels[copies], truth[copies], groups=copies)
    assert dispersion_of(together, whole) == pytest.approx(4.0, abs=0.1)
    assert dispersion_of(Forecast.of(labels, truth), whole) == 1.0


def test_only_rows_of_one_group_in_the_same_cell_widen_it(world):
    truth, labels, _ = world
    copies = np.repeat(np.arange(10_000), 4)
    rows = Forecast.of(labels[copies], truth[copies], groups=copies)
    apart, attribute = np.tile(np.arange(4), 10_000), copies % 3
    assert dispersion_of(rows, apart) == pytest.approx(1.0, abs=0.05)
    assert dispersion_of(rows, attribute) == pytest.approx(4.0, abs=0.1)
    assert dispersion_of(rows, copies) == 1.0


def counts_of(ids, p, labels, n_values):
    sums = [np.bincount(ids, weights=column, minlength=n_values) for column in (labels, p, p * p)]
    return matched_counts(*sums, np.ones(n_values))


@pytest.mark.parametrize(("n_values", "exponent"), [(5, 1.0), (300, 1.1), (5_000, 0.6)])
def test_chance_alone_is_rarely_called_an_error(n_values, exponent):
    rng = np.random.default_rng(1)
    popularity = np.arange(1, n_values + 1) ** -exponent
    ids = rng.choice(n_values, 20_000, p=popularity / popularity.sum())
    p = rng.beta(1.0, 15.0, 20_000)
    found = [spread_of(counts_of(ids, p, rng.random(20_000) < p, n_values)) for _ in range(300)]
    p_values = np.array([spread.p_value for spread in found])
    # three standard errors around 5 %
    assert 0.012 < np.mean(p_values < 0.05) < 0.088
    assert 0.4 < p_values.mean() < 0.6
    assert np.mean([spread.is_visible for spread in found]) < 0.06


@pytest.mark.parametrize("n_values", [10, 400, 8_000])
def test_a_planted_relative_error_is_recovered_at_any_sparsity(n_values):
    rng = np.random.default_rng(2)
    ids = rng.integers(0, n_values, 60_000)
    p = rng.uniform(0.05, 0.15, 60_000)
    off = rng.choice([0.7, 1.3], n_values)
    found = spread_of(counts_of(ids, p, rng.random(60_000) < p * off[ids], n_values))
    assert found.relative_error == pytest.approx(0.3, abs=0.03)
    assert found.p_value < 1e-6
    assert found.is_visible


def test_levelling_takes_the_common_bias_out():
    rng = np.random.default_rng(4)
    ids, p = rng.integers(0, 50, 40_000), np.full(40_000, 0.2)
    counts = counts_of(ids, p, rng.random(40_000) < 0.1, 50)
    assert spread_of(counts).relative_error > 0.4
    nothing = matched_counts(np.zeros(3), np.zeros(3), np.zeros(3), np.ones(3))
    assert np.isnan(spread_of(nothing).relative_error)
    assert not spread_of(levelled(counts)).is_visible


def test_the_spread_is_its_formula():
    """In plain loops, of cells with a hundred, three and a third of an expected positive."""
    counts = MatchedCounts(np.array([120.0, 5.0, 1.0]), np.array([100.0, 3.0, 0.3]), np.array([1_000.0, 40.0, 9.0]))
    above = below = 0.0
    level = 126.0 / 103.3
    for seen, expected, trials in zip(counts.positives, counts.expected, counts.trials, strict=True):
        rate = expected / trials
        weight = 1.0 / max(expected * (1.0 - rate), 1.0)
        above += weight * ((seen - expected) ** 2 - (1.0 - level * rate) * seen)
        below += weight * expected**2
    assert spread_of(counts).relative_error == pytest.approx(np.sqrt(above / below))


def test_dispersion_adds_residuals_of_a_group_in_a_cell():
    labels, p = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0]), np.array([0.6, 0.1, 0.7, 0.4, 0.2, 0.5])
    ids, groups = np.array([0, 0, 1, 1, 2, 2]), np.array([3, 3, 1, 1, 1, 3])
    residuals = labels - p - np.mean(labels - p)
    together = [residuals[:2].sum(), residuals[2:4].sum(), residuals[4], residuals[5]]
    expected = np.square(together).sum() / np.square(residuals).sum()
    assert dispersion_of(Forecast.of(labels, p, groups=groups), ids) == pytest.approx(max(1.0, expected))
    assert expected > 1.0


def test_errors_by_times_seen_are_sums_of_their_rows():
    times, labels, p = np.array([0, 0, 5, 5, 2_000]), np.array([1, 0, 1, 1, 0]), np.array([0.5, 0.3, 0.9, 0.4, 0.1])
    never, few, often = by_times_seen(times, labels, {"after": p}, weights=np.array([2.0, 1.0, 1.0, 1.0, 1.0]))
    assert [band.title for band in (never, few, often)] == ["never", "1 to 9", "1,000 or more"]
    assert (never.n_rows, never.n_positive, few.pcoc["after"]) == (3.0, 2.0, pytest.approx(0.65))
    assert never.log_loss["after"] == pytest.approx(-(2 * np.log(0.5) + np.log(0.7)) / 3)
    assert never.noise == pytest.approx(1.96 * np.sqrt(4 * 0.25 + 0.21) / 2.0)
    assert np.isnan(often.pcoc["after"])
