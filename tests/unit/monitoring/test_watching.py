"""The watch: its promise on worlds where nothing is wrong, and what it finds where something is."""

import numpy as np
import pytest

import monocal
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.monitoring.ledger import (
    N_BETS,
    Ledger,
    begun,
    log_growth,
    next_wealth,
    scope_share,
    sums_by_period,
    total_log_wealth,
    value_shares,
)
from monocal.monitoring.watch import alarms_of, watch
from monocal.tables.categories import EncodedColumn
from monocal.tables.roles import Roles
from monocal.tables.table import Table


@pytest.fixture(scope="module")
def model():
    """Hands scores through; its field has the values 0 to 9."""
    rng = np.random.default_rng(0)
    log = {"p": rng.uniform(0.02, 0.3, 2_000), "y": rng.integers(0, 2, 2_000), "store": rng.integers(0, 10, 2_000)}
    return monocal.fit(log, method="none", score="p", label="y", fields=["store"])


def table_of(rng, n_days, n_rows, *, n_values=10, factor=1.0, first_day=0, slope=1.0):
    """Rows whose labels come with probability `factor` times the score, or with another slope of its logit."""
    n = n_days * n_rows
    p = rng.uniform(0.02, 0.3, n)
    logits = np.log(p / (1 - p))
    # the mean of the probabilities stays
    bent = 1 / (1 + np.exp(-(slope * logits)))
    truth = np.clip(factor * bent * p.mean() / bent.mean(), 0, 1)
    return {
        "p": p,
        "y": (rng.random(n) < truth).astype(int),
        "store": rng.integers(0, n_values, n),
        "day": np.repeat(np.arange(first_day, first_day + n_days), n_rows),
    }


@pytest.mark.parametrize(("factor", "tolerance"), [(1.0, 0.0), (1.1, 0.1), (1 / 1.1, 0.1), (1.05, 0.1)])
def test_the_wealth_of_a_chart_rarely_ever_reaches_its_limit(factor, tolerance):
    rng = np.random.default_rng(7)
    n_runs, n_days, n_rows, rate = 600, 25, 40, 0.1
    wealth = {chart: begun(n_runs, n, 0) for chart, n in N_BETS.items()}
    alarmed = {chart: np.zeros(n_runs, dtype=bool) for chart in N_BETS}
    no_bound = np.full(n_runs, np.inf)
    for day in range(1, n_days + 1):
        # forecasts move from day to day; the promise does not depend on them
        p = rng.uniform(0.02, 0.1 + 0.03 * day, (n_runs, n_rows))
        labels = (rng.random(p.shape) < factor * p).astype(float)
        growth = log_growth(p.ravel(), labels.ravel(), tolerance)
        for chart, n_bets in N_BETS.items():
            today = growth[chart].reshape(n_bets, n_runs, n_rows).sum(axis=2).T
            wealth[chart] = next_wealth(wealth[chart], today, day, no_bound)
            alarmed[chart] |= total_log_wealth(wealth[chart], day) >= -np.log(rate)
    for chart in N_BETS:
        assert alarmed[chart].mean() <= rate + 2.5 * np.sqrt(rate * (1 - rate) / n_runs), chart
    if factor == 1.1 or tolerance == 0.0:
        assert alarmed["pcoc"].any()  # at the edge of the null chance has its say


def test_mean_wealth_is_one_when_nothing_is_wrong():
    rng = np.random.default_rng(3)
    n_runs, n_rows = 40_000, 10
    p = np.full((n_runs, n_rows), 0.2)
    labels = (rng.random(p.shape) < p).astype(float)
    for chart, growth in log_growth(p.ravel(), labels.ravel(), 0.0).items():
        factors = np.exp(growth.reshape(-1, n_runs, n_rows).sum(axis=2))
        spread = factors.std(axis=1) / np.sqrt(n_runs)
        assert np.all(np.abs(factors.mean(axis=1) - 1.0) < 4 * spread), chart


def test_share_of_runs_with_any_alarm_in_any_slice_is_as_promised():
    rate, n_runs = 0.2, 500
    rng = np.random.default_rng(11)
    settings = {"tasks": ["y"], "by": ["store"], "false_alarm_rate": rate, "every": 1, "time_is_calendar": False}
    roles = Roles(score="p", label="y", slices=["store"], time="day")
    alarmed = 0
    for _ in range(n_runs):
        table, ledger = table_of(rng, 3, 100), Ledger.begin(settings)
        column = EncodedColumn(table["store"], None)
        rows = Table(roles, {"y": table["y"]}, {"y": table["p"]}, {"store": column}, times=table["day"])
        found = []
        for period in sums_by_period(rows, {"y": table["p"]}, by=("store",), length=1, tolerance=0.0):
            ledger.add(period.number, period.cells)
            found += alarms_of(ledger)
        alarmed += bool(found)
    assert 0 < alarmed <= rate * n_runs


def test_one_value_of_ten_thousand_with_a_bias_of_a_fifth_is_found_alone(model):
    rng = np.random.default_rng(5)
    table = table_of(rng, 12, 24_000, n_values=10_000)
    planted = rng.random(table["p"].size) < 0.15
    table["store"] = np.where(planted, 123, table["store"])
    table["y"] = (rng.random(planted.size) < np.where(planted, 1.2, 1.0) * table["p"]).astype(int)
    found = watch(model, table, time="day", by=["store"])
    slices = {(alarm.field, alarm.value) for alarm in found.alarms if alarm.field}
    assert slices == {("store", "123")}
    alarm = next(alarm for alarm in found.alarms if alarm.field and alarm.chart == "pcoc")
    assert alarm.calibration.pcoc == pytest.approx(1 / 1.2, abs=0.05)
    assert alarm.log10_evidence >= alarm.log10_limit
    assert found.n_charts == 2 * 10_001


def test_shares_of_all_slices_stay_below_one():
    for n_first in (1, 7, 1_000):
        assert value_shares(200_000, n_first).sum() < 1.0
    assert value_shares(7, 7).sum() == pytest.approx(0.5)
    whole = 2 * 3 * (scope_share(3, 2, is_overall=True) + 2 * scope_share(3, 2, is_overall=False))
    assert whole == pytest.approx(1.0)
    assert 2 * scope_share(1, 0, is_overall=True) == 1.0


def test_a_wrong_slope_is_seen_in_the_log_loss_alone(model):
    found = watch(model, table_of(np.random.default_rng(2), 5, 20_000, slope=0.3), time="day")
    assert {alarm.chart for alarm in found.alarms} == {"log_loss"}
    seen = found.alarms[0].calibration
    assert seen.log_loss > seen.expected_log_loss


def test_a_late_change_is_found_soon_and_an_alarm_ends_after_its_cause(model, tmp_path):
    rng = np.random.default_rng(4)
    state = tmp_path / "state"
    assert not watch(model, table_of(rng, 40, 2_000), time="day", state=state).is_alarmed
    bad = watch(model, table_of(rng, 6, 2_000, factor=1.5, first_day=40), time="day", state=state)
    assert bad.is_alarmed
    assert int(bad.alarms[0].since) >= 38
    assert bad.n_periods == 46
    later = watch(model, table_of(rng, 20, 2_000, first_day=46), time="day", state=state)
    assert watch(model, table_of(rng, 1, 2_000, first_day=66), time="day", state=state).alarms == ()
    assert [day.period for day in later.days] == [str(day) for day in range(46, 66)]


def test_day_by_day_is_the_same_as_all_days_at_once(model, tmp_path):
    rng = np.random.default_rng(9)
    table = table_of(rng, 4, 3_000, factor=1.4)
    table["store"][:3_000] = 1  # values that come later
    at_once = watch(model, table, time="day", by=["store"])
    for day in range(4):
        rows = {name: column[day * 3_000 : (day + 1) * 3_000] for name, column in table.items()}
        last = watch(model, rows, time="day", by=["store"], state=tmp_path / "state")
    standing = {(alarm.field, alarm.value, alarm.chart): alarm.log10_evidence for alarm in last.alarms}
    assert standing
    for alarm in at_once.alarms:
        if alarm.period == "3":
            assert standing[alarm.field, alarm.value, alarm.chart] == pytest.approx(alarm.log10_evidence, rel=1e-12)
    assert (last.n_periods, last.n_charts) == (at_once.n_periods, at_once.n_charts)


def test_a_day_is_read_once_and_settings_stay(model, tmp_path):
    rng = np.random.default_rng(1)
    state, table = tmp_path / "state", table_of(rng, 3, 100)
    watch(model, table, time="day", state=state)
    before = (state / "watch.json").read_bytes()
    with pytest.raises(InvalidInput, match=r"rows of 0, which was read before; expected rows after 2 .* since=\"3\""):
        watch(model, table, time="day", state=state)
    with pytest.raises(InvalidInput, match="tolerance: got 0.1; expected 0.05, with which this watch was begun"):
        watch(model, table_of(rng, 1, 100, first_day=3), time="day", state=state, tolerance=0.1)
    with pytest.raises(InvalidInput, match="by: got "):
        watch(model, table_of(rng, 1, 100, first_day=3), time="day", state=state, by=["store"])
    assert (state / "watch.json").read_bytes() == before
    both = table_of(rng, 4, 100)
    assert watch(model, both, time="day", state=state, since="3").n_periods == 4
    wealth = state / "wealth.safetensors"
    wealth.write_bytes(wealth.read_bytes()[:-8] + bytes(8))
    with pytest.raises(ArtefactError, match=r"wealth\.safetensors.*begin a new watch with another state="):
        watch(model, table_of(rng, 1, 100, first_day=4), time="day", state=state)


def test_days_without_labels_show_what_the_forecast_expects_and_are_not_kept(model, tmp_path):
    rng, state = np.random.default_rng(6), tmp_path / "state"
    table = table_of(rng, 1, 20_000)
    labels = table.pop("y")
    found = watch(model, table, time="day", state=state)
    assert (found.n_periods, found.is_alarmed, found.days[0].calibration) == (0, False, {})
    assert not state.exists()
    seen = watch(model, {**table, "y": labels}, time="day", state=state).days[0]
    assert seen.calibration["y"].log_loss == pytest.approx(found.days[0].expected["y"].log_loss, abs=0.01)
    with pytest.raises(InvalidInput, match="label"):
        watch(model, table, time="day", label="yy")


def test_unseen_values_and_drift_alarm_beyond_their_limits_only(model):
    rng = np.random.default_rng(6)
    table = table_of(rng, 1, 5_000, n_values=20)
    day = watch(model, table, time="day").days[0]
    assert day.unseen["store"] == pytest.approx(0.5, abs=0.05)
    assert day.drift["y"].value < 0.05
    found = watch(model, table, time="day", max_unseen=0.3, max_drift=0.1)
    assert found.alarms == ()
    assert len(found.beyond) == 1
    assert "values of store are unseen, limit 30.0%" in found.beyond[0]
    higher = {**table, "p": table["p"] * 2}
    assert "scores of y drifted" in watch(model, higher, time="day", max_drift=0.1).beyond[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"false_alarm_rate": 0.0}, "false_alarm_rate: got 0.0"),
        ({"tolerance": -0.1}, "tolerance: got -0.1"),
        ({"every": "1d"}, "every: got '1d'; expected a number in the unit of the time column"),
        ({"by": ["stroe"]}, "did you mean 'store'"),
        ({"time": "dya"}, "did you mean 'day'"),
        ({"time": "second"}, "makes 6,000 periods.*86400"),
    ],
)
def test_what_cannot_be_used_is_named(model, change, message):
    table = {**table_of(np.random.default_rng(0), 1, 6_000), "second": np.arange(6_000)}
    with pytest.raises(InvalidInput, match=message):
        watch(model, table, **{"time": "day", **change})
