"""Laws of carry-over: shares recover what persists, and nothing else is carried."""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.calibrators.logistic import solve_shift
from monocal.carry_over.blocks import TimeBlocks
from monocal.carry_over.shares import PRIOR_STRENGTH, ValidationRows, rolling_origin_fits, solve_shares
from monocal.carry_over.shrinkage import CarryOver, learn_carry_over
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.lab.simulator import Compose, Drifting, Field, Lasting, World, simulate_log

N_PERIODS = 20
DAY = 86_400


def drawn(lasting, n_rows=120_000, seed=0, level_walk=0.0, size=150, **field):
    """Rows of twenty days with one field per `Lasting`, whose scores know nothing of the shifts."""
    fields = tuple(Field(effect.name, size, exponent=0.3, **field) for effect in lasting)
    drifting = Drifting(tuple(lasting), n_periods=N_PERIODS, level_walk=level_walk)
    world = World("for a test", fields, 0.3, Compose(drifting), draws="score", days=N_PERIODS, seed=seed)
    log = simulate_log(n_rows, world=world)
    return Dataset.of(log.scores, log.labels, features=log.features, times=log.times), log


def later_rows(offset, parts, labels, weights, levels, blocks):
    return ValidationRows(Dataset(offset, labels, weights), lambda rows: parts[rows], levels, blocks)


@pytest.mark.parametrize("seed", [0, 1])
def test_persistent_effects_are_carried_and_transient_ones_are_not(seed):
    parts = [Lasting("lasting", persistent=0.4), Lasting("passing", transient=0.8)]
    found = learn_carry_over(drawn(parts, seed=seed, size=500)[0])
    assert found.errors.max() < 0.12
    assert found.shares[0] > 0.95
    assert found.shares[1] < 0.15
    assert found.kept.tolist() == [True, False]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_share_of_a_mixed_effect_is_the_persistent_share_of_its_variance(seed):
    mixed = Lasting("mixed", persistent=0.3, transient=0.9)
    rows, _ = drawn([mixed], n_rows=200_000, seed=seed, size=300)
    found = learn_carry_over(rows)
    # the origins saw ten and fourteen days
    expected = 0.5 * (mixed.persistent_share(10) + mixed.persistent_share(14))
    assert 0.02 < found.errors[0] < 0.15
    assert found.shares[0] == pytest.approx(expected, abs=3.0 * found.errors[0])


def test_a_wandering_level_is_not_blamed_on_fields():
    rows, _ = drawn([Lasting("a", persistent=0.4), Lasting("b", persistent=0.3)], level_walk=0.3)
    assert learn_carry_over(rows).shares.min() > 0.9


def test_carry_over_comes_nearer_to_the_truth_where_shocks_pass():
    _, log = drawn([Lasting("a", persistent=0.3), Lasting("b", transient=1.0)], n_rows=100_000)
    older, later = slice(0, 60_000), slice(60_000, None)
    gaps = {}
    for carry in ("none", "auto"):
        one = calibrator("wide_logistic", l2="auto", carry=carry)
        one.fit(log.scores[older], log.labels[older], features=log.features[older], times=log.times[older])
        p = one.predict(log.scores[later], features=log.features[later])
        gaps[carry] = np.mean((p - log.true_probabilities[later]) ** 2)
    assert gaps["auto"] < 0.95 * gaps["none"]


def test_a_field_that_names_the_day_is_confounded_with_time():
    _, log = drawn([Lasting("a", persistent=0.3)], n_rows=40_000)
    day = (log.times // DAY - log.times[0] // DAY + 1).astype(np.int32)
    rows = Dataset.of(log.scores, log.labels, features=np.column_stack([log.features, day]), times=log.times)
    found = learn_carry_over(rows)
    assert found.confounded_with_time.tolist() == [False, True]
    assert found.shares[1] == pytest.approx(0.5)  # no row can say anything, so the prior stays


@pytest.mark.parametrize("unit", ["datetime64[s]", "seconds", "none"])
def test_an_hour_of_a_log_of_one_day_is_known_by_the_clock(unit):
    _, log = drawn([Lasting("a", persistent=0.3)], n_rows=60_000)
    first_day = slice(0, np.searchsorted(log.times, log.times[0] - log.times[0] % DAY + DAY))
    day = log.take(first_day)
    hour, part = day.times // 3600 % 24 + 1, (day.times - day.times[0]) // 5000 + 1
    times = {"datetime64[s]": day.times.astype("datetime64[s]"), "seconds": day.times, "none": None}[unit]
    features = np.column_stack([day.features, hour, part]).astype(np.int32)
    found = learn_carry_over(Dataset.of(day.scores, day.labels, features=features, times=times))
    assert found.confounded_with_time.tolist() == [False, True, True]
    assert found.shares[1:] == pytest.approx([0.5 if unit == "none" else 1.0, 0.5])


def test_given_shares_are_taken_and_the_others_learn_carry_over():
    rows, _ = drawn([Lasting("a", persistent=0.4), Lasting("b", transient=0.8)], n_rows=40_000)
    found = learn_carry_over(rows, {1: 0.7})
    assert found.shares[0] > 0.8
    assert found.shares[1] == 0.7
    assert found.given.tolist() == [False, True]


def test_shares_are_at_their_optimum_within_bounds():
    random = np.random.default_rng(3)
    parts = random.normal(size=(5000, 3))
    level = np.arange(5000) // 500
    truth = 0.3 * level - 1.0 + parts @ np.array([0.4, -0.5, 1.6])
    labels = (random.random(5000) < 1.0 / (1.0 + np.exp(-truth))).astype(float)
    rows = later_rows(np.zeros(5000), parts, labels, None, level, level)
    found = solve_shares(rows, np.array([1.0, 1.0, 0.0]))
    assert found.values[1] == 0.0
    assert found.values[2] == 1.0
    strength = PRIOR_STRENGTH * found.design_effects

    def loss(first):
        a = np.array([first, 0.0, 1.0])
        total = 0.5 * strength[0] * (first - 1.0) ** 2
        for number in range(10):
            here = level == number
            offset = parts[here] @ a
            z = offset + solve_shift(Dataset(offset, labels[here]), offset)
            total += np.sum(np.logaddexp(0.0, z) - labels[here] * z)
        return total

    here = loss(found.values[0])
    assert here < loss(found.values[0] - 0.05)
    assert here < loss(found.values[0] + 0.05)


def test_blocks_follow_days_and_origins_lie_on_their_edges():
    days = np.repeat(np.arange(14), [50, 200, 100, 80, 90, 100, 120, 60, 100, 150, 90, 100, 100, 60])
    stamps = np.datetime64("2026-01-01") + days.astype("timedelta64[D]")
    blocks = TimeBlocks.of(Dataset(np.zeros(days.size), times=stamps))
    begins = np.flatnonzero(np.diff(days, prepend=-1))
    assert set(blocks.edges[0, :-1]) <= set(begins)
    assert blocks.n_blocks >= 10


@pytest.mark.parametrize("times", [None, np.repeat([1, 2, 3], 1000)])
def test_without_enough_periods_blocks_are_equal_shares_of_the_weight(times):
    blocks = TimeBlocks.of(Dataset(np.zeros(3000), times=times))
    assert np.diff(blocks.edges[0]).tolist() == [150] * 20
    heavy = TimeBlocks.of(Dataset(np.zeros(3000), w=np.repeat([3.0, 1.0], 1500), times=times))
    np.testing.assert_allclose(np.diff(heavy.shares), 0.05, atol=1e-3)


@pytest.mark.parametrize("carry", ["some", {5: 0.5}, {0: 1.5}, {"hour": 1.0}])
def test_shares_that_cannot_be_are_refused(carry):
    with pytest.raises(InvalidInput, match="carry"):
        calibrator("wide_logistic", carry=carry).fit([0.1, 0.4, 0.3] * 9, [0, 1, 0] * 9, features=[[1], [2], [1]] * 9)


def test_a_few_rows_are_enough_for_a_defined_answer():
    one = calibrator("wide_logistic", carry="auto").fit([0.1, 0.4], [0, 1], features=[[1], [2]])
    assert np.isfinite(one.predict([0.2], features=[[3]])).all()
    assert one.carry_["share"].tolist() == [1.0]


def test_a_field_confounded_with_time_stands_aside_while_the_slope_is_set():
    """Scores and rates both rise over the hours of one day; a slope set without the hours would take them over."""
    random = np.random.default_rng(0)
    hour = np.repeat(np.arange(1, 21), 2000).astype(np.int32)
    z = random.normal(size=hour.size) + 0.15 * hour - 3.0
    labels = (random.random(hour.size) < 1.0 / (1.0 + np.exp(-(z + 0.1 * hour - 1.0)))).astype(float)
    features = np.column_stack([random.integers(1, 4, hour.size), hour]).astype(np.int32)
    slopes = {}
    for given in (0.0, 0.5, 1.0):
        one = calibrator("wide_logistic", l2="auto", carry={1: given})
        one.fit(z, labels, features=features, scores_are="logit")
        slopes[given] = one.slope_
        assert one.predict(z, features=features, scores_are="logit").mean() == pytest.approx(labels.mean(), rel=1e-6)
    assert slopes[1.0] == pytest.approx(1.0, abs=0.05)
    assert slopes[0.5] == pytest.approx(slopes[1.0], abs=1e-3)
    assert slopes[0.0] == pytest.approx(slopes[1.0], abs=1e-3)


def test_rows_that_say_the_same_ten_times_count_once():
    """The design effect of a part is how many of its rows go together; the prior weighs as much more."""
    rng = np.random.default_rng(0)
    columns = np.zeros(3000), rng.normal(size=(3000, 1)), (rng.random(3000) < 0.5).astype(float), np.ones(3000)
    level = np.arange(3000) // 50
    effects = []
    for n_times in (1, 10):
        repeated = [np.repeat(column, n_times, axis=0) for column in (*columns, level, level)]
        effects.append(solve_shares(later_rows(*repeated), prior=np.ones(1)).design_effects[0])
    assert effects == pytest.approx([1.0, 10.0], rel=0.25)


def test_two_origins_on_the_same_edge_are_one():
    rng = np.random.default_rng(0)
    rows = Dataset.of(rng.random(300), rng.random(300) < 0.5, features=rng.integers(0, 3, (300, 1)))
    few = TimeBlocks(np.array([[0, 180, 290, 300]]), np.array([0.0, 0.6, 290 / 300, 1.0]))
    many = TimeBlocks.of(rows)
    assert [len(rolling_origin_fits(rows, blocks, 1.0)) for blocks in (few, many)] == [1, 2]


def test_a_field_stays_from_a_share_of_fifteen_percent_on():
    shares, nothing = np.array([0.14, 0.15, 0.2, 0.01, 0.0]), np.full(5, np.nan)
    given = np.array([False, False, False, True, True])
    found = CarryOver(shares, nothing, np.ones(5), given, TimeBlocks(np.array([0, 1]), np.array([0.0, 1.0])))
    assert found.kept.tolist() == [False, True, True, True, False]
