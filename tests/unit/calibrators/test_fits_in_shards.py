"""Fits that a team does together."""

import numpy as np
import pytest

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.calibrators.statistical import row_variance
from monocal.core.errors import InvalidInput
from monocal.core.team import DEALT_ROWS, Alone, Shards
from monocal.lab.simulator import simulate_log
from monocal.models.fit import FitOptions, fit_log
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary
from monocal.testing.teams import run_team

LOG = simulate_log(40_000, seed=5).table()
SCORES, LABELS = LOG["pctr"].to_numpy(), LOG["click"].to_numpy()
FEATURES = Vocabulary.of_table(LOG, ["site_id", "device"]).encode(LOG)
TIMES = LOG["timestamp"].to_numpy()
WEIGHTS = np.random.default_rng(0).integers(0, 3, len(SCORES)).astype(np.float64)


def fitted(team, n, times=None, **arguments):
    rows, shards = Shards.deal(len(SCORES), n, team)
    one = calibrator("wide_logistic", **arguments)
    given = {"features": FEATURES[rows], "weights": WEIGHTS[rows], "times": None if times is None else times[rows]}
    one.fit(SCORES[rows], LABELS[rows], shards=shards, **given)
    return one.shifts_.tobytes(), one.slope_, one.intercept_, one.recent_shift_


@pytest.mark.parametrize("l2", [10.0, "auto"])
def test_the_same_shards_give_the_same_bits_for_any_team(l2):
    alone = fitted(Alone(), 4, l2=l2)
    for size in (2, 4):
        assert run_team(size, lambda team: fitted(team, 4, l2=l2)) == [alone] * size


def test_another_number_of_shards_differs_by_rounding_alone():
    plain = calibrator("wide_logistic").fit(SCORES, LABELS, features=FEATURES, weights=WEIGHTS)
    shifts, slope, intercept, _ = fitted(Alone(), 3)
    np.testing.assert_allclose(np.frombuffer(shifts), plain.shifts_, rtol=0, atol=1e-12)
    assert (slope, intercept) == pytest.approx((plain.slope_, plain.intercept_), rel=0, abs=1e-12)


def test_one_shard_is_the_fit_without_shards_to_the_bit():
    plain = calibrator("wide_logistic").fit(SCORES, LABELS, features=FEATURES, weights=WEIGHTS)
    assert fitted(Alone(), 1) == (plain.shifts_.tobytes(), plain.slope_, plain.intercept_, 0.0)


def test_fewer_shards_than_members_are_refused_instead_of_every_member_fitting_everything():
    log = Table.read(LOG, Roles.of(score="pctr", label="click", fields=["device"])).encoded()
    with pytest.raises(InvalidInput, match=r"n_shards: got 1; expected 2 \(one per process\) to 512"):
        run_team(2, lambda team: fit_log(log, FitOptions("wide_logistic"), team=team, n_shards=1))


def test_a_member_may_see_one_class_but_not_all_of_them():
    order = np.argsort(LABELS, kind="stable")

    def fit(team, labels):
        rows, shards = Shards.deal(len(SCORES), 2, team)
        return calibrator("wide_logistic").fit(SCORES[rows], labels[rows], features=FEATURES[rows], shards=shards)

    sorted_labels = LABELS[order].copy()
    assert len(run_team(2, lambda team: fit(team, sorted_labels))) == 2
    with pytest.raises(InvalidInput, match="only 0s"):
        run_team(2, lambda team: fit(team, np.zeros(len(SCORES))))


def test_a_member_without_rows_takes_part():
    few = DEALT_ROWS - 100

    def fit(team):
        rows, shards = Shards.deal(few, 2, team)
        one = calibrator("wide_logistic").fit(SCORES[rows], LABELS[rows], features=FEATURES[rows], shards=shards)
        return len(rows), one.shifts_.tobytes()

    (_, alone), members = fit(Alone()), run_team(2, fit)
    assert members == [(few, alone), (0, alone)]


@pytest.mark.parametrize("method", CALIBRATORS)
def test_methods_that_need_all_rows_say_so(method):
    one = calibrator(method)
    if one.fits_in_shards:
        return
    shards = Shards(Alone(), 2, (0, 1), np.array([0, 1, 2]))
    with pytest.raises(InvalidInput, match="fit it on one machine"):
        one.fit([0.1, 0.2], [0, 1], features=[[1], [2]], shards=shards)


CARRIED = {"carry": "auto", "l2": "auto", "recent_share": 0.2}


@pytest.mark.parametrize("arguments", [CARRIED, {"carry": {0: 0.5}}, {"guard": True, "recent_share": 0.2}])
@pytest.mark.parametrize("times", [TIMES, None], ids=["times", "order"])
def test_what_looks_at_time_has_the_same_bits_for_any_team(arguments, times):
    alone = fitted(Alone(), 4, times, **arguments)
    for size in (2, 4):
        assert run_team(size, lambda team: fitted(team, 4, times, **arguments)) == [alone] * size


@pytest.mark.parametrize("times", [TIMES, None], ids=["times", "order"])
def test_shares_and_level_are_those_of_one_machine(times):
    """Cuts lie between the same rows, up to rows of one moment; sums differ by rounding."""
    given = {"features": FEATURES, "weights": WEIGHTS, "times": times}
    plain = calibrator("wide_logistic", **CARRIED).fit(SCORES, LABELS, **given)
    rows, shards = Shards.deal(len(SCORES), 3, Alone())
    given = {"features": FEATURES[rows], "weights": WEIGHTS[rows], "times": None if times is None else times[rows]}
    found = calibrator("wide_logistic", **CARRIED).fit(SCORES[rows], LABELS[rows], shards=shards, **given)
    np.testing.assert_allclose(found.carry_["share"], plain.carry_["share"], atol=1e-4)
    np.testing.assert_allclose(found.shifts_, plain.shifts_, atol=1e-3)
    assert found.recent_shift_ == pytest.approx(plain.recent_shift_, abs=1e-4)


def test_shards_that_cannot_be_compared_in_time_are_refused_where_time_matters():
    shards = Shards(Alone(), 2, (0, 1), np.array([0, 20_000, 40_000]))
    calibrator("wide_logistic").fit(SCORES, LABELS, features=FEATURES, shards=shards)
    with pytest.raises(InvalidInput, match="tells older rows from newer ones"):
        calibrator("wide_logistic", carry="auto").fit(SCORES, LABELS, features=FEATURES, shards=shards)


def test_the_traffic_of_a_hundred_members_is_what_the_formula_says(monkeypatch):
    """Per evaluation: one number per shift, slope, intercept and loss, beside the two scales of integers."""
    monkeypatch.setattr(row_variance, "MOST_ROWS", 2_000)
    n_shifts, n_fields = sum(int(FEATURES[:, field].max()) + 1 for field in range(2)), 2
    rows_of_a_member = np.arange(len(SCORES)).reshape(100, -1)

    def fit(team):
        own = rows_of_a_member[team.rank]
        shards = Shards(team, 100, (team.rank,), np.array([0, len(own)]))
        calibrator("wide_logistic").fit(SCORES[own], LABELS[own], features=FEATURES[own], shards=shards)
        return team.n_reductions, team.n_bytes

    ((n_reductions, n_bytes),) = set(run_team(100, fit))
    # two classes, field sizes, three sums, then scales and sums of the curvature and of every evaluation; in the end
    # what is known about level, slope and every shift, for refreshes, and for intervals the newest rows themselves:
    # how many there are, then place, score, label, weight, answer and ids, each with the lengths of all pieces
    n_columns = 5 + n_fields
    n_evaluations = (n_reductions - 8 - (1 + 2 * n_columns)) // 2
    before = 8 * 2 + 8 * n_fields + 8 * (1 + 3) + 8 * (2 + n_shifts + 2 + (n_fields + 2) ** 2)
    after = 8 * (5 + 4 + n_shifts) + 8 * (1 + n_columns * (100 + row_variance.MOST_ROWS))
    assert n_bytes == before + n_evaluations * 8 * (2 + n_shifts + 3) + after
    assert 5 <= n_evaluations <= 60
