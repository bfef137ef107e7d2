"""Labels that may still come: delay curves, fits and judgements on rows that are not mature."""

from dataclasses import asdict

import numpy as np
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.core.numbers import plain_values
from monocal.evaluation.table import evaluate_table
from monocal.lab.simulator import delay_labels, simulate_log
from monocal.monitoring.watch import watch
from monocal.tables.late_labels import DelayCurve, estimate_delays

LATE = {"event_time": "timestamp", "label_time": "label_time", "window": str(7 * 86_400)}
COLUMNS = {"score": "pctr", "label": "click"}

# the question here is whether labels that are still to come are counted, which the fitted rows themselves answer
pytestmark = pytest.mark.filterwarnings("ignore:the model was fitted on about")


@pytest.fixture(scope="module")
def log():
    """Ten days seen at their end; every advertiser has its own delays."""
    return delay_labels(simulate_log(40_000, seed=0).table())


def pcoc_of(model, log):
    """PCOC, and its interval, against the labels that will have come in the end."""
    after = evaluate_table(log, model=model, label="final_click", metrics=["pcoc"]).tasks["click"]
    return after.value("pcoc"), after.interval("pcoc")


@pytest.mark.parametrize(("method", "fields"), [("platt", []), ("wide_logistic", ["ad_id", "device"])])
def test_a_naive_fit_is_too_low_and_ours_is_right(log, method, fields):
    naive = monocal.fit(log, method=method, **COLUMNS, fields=fields, time="timestamp")
    assert pcoc_of(naive, log)[0] < 0.85
    ours = monocal.fit(log, method=method, **COLUMNS, fields=fields, **LATE)
    low, high = pcoc_of(ours, log)[1]
    assert low <= 1.0 <= high
    assert ours.info["late_labels"]["mature_share"] == pytest.approx(0.3, abs=0.1)


def test_a_refresh_on_young_labels_keeps_the_level():
    rows = delay_labels(simulate_log(20_000, seed=2).table()).sort_by("timestamp")
    model = monocal.fit(rows.slice(0, 16_000), method="wide_logistic", **COLUMNS, fields=["device"], **LATE)
    day = rows.slice(16_000)
    models = (model, model.refresh(day), model.refresh(day, **LATE))
    before, seen, mature = (each.predict(day).sum() / day["final_click"].to_numpy().sum() for each in models)
    assert seen < before - 0.1
    assert abs(mature - 1.0) < abs(before - 1.0)
    assert models[2].info["late_labels"]["mature_share"] == 0.0


def test_a_watch_of_late_labels_needs_their_window(log):
    model = monocal.fit(log, method="platt", **COLUMNS, **LATE)
    with pytest.raises(InvalidInput, match="window: got None"):
        watch(model, log, time="timestamp", every="86400", label_time="label_time")


def test_the_curve_is_the_truth_by_value_and_shrunk_where_there_is_little():
    rng = np.random.default_rng(0)
    means, window = np.array([500.0, 4_000.0]), 10_000
    ids = rng.integers(0, 2, 30_000)
    delays, ages = rng.exponential(means[ids]), rng.uniform(0, 20_000, ids.size)
    seen = (delays <= ages) & (delays <= window)
    fields = {"ad": (ids[seen], ["quick", "slow", "rare"]), "noise": (rng.integers(0, 5, seen.sum()), list("abcde"))}
    curve = estimate_delays(delays[seen].astype(int), ages[seen].astype(int), window, fields)
    assert curve.by == "ad"
    at = np.array([1_000, 3_000, 8_000])
    for value, mean in zip(("quick", "slow"), means, strict=True):
        truth = -np.expm1(-at / mean) / -np.expm1(-window / mean)
        assert curve.at(at, [value], np.zeros(3, dtype=int)) == pytest.approx(truth, abs=0.03)
    assert curve.at(at, ["rare"], np.zeros(3, dtype=int)) == pytest.approx(curve.at(at))
    again = DelayCurve.from_dict(plain_values(asdict(curve)))
    assert again.at(at, ["slow"], np.zeros(3, dtype=int)).tolist() == curve.at(at, ["slow"], np.zeros(3, int)).tolist()


def test_values_without_a_difference_get_no_curve_of_their_own():
    rng = np.random.default_rng(1)
    delays, ages = rng.exponential(2_000, 5_000), rng.uniform(0, 20_000, 5_000)
    seen = (delays <= ages) & (delays <= 10_000)
    fields = {"noise": (rng.integers(0, 50, seen.sum()), [str(value) for value in range(50)])}
    assert estimate_delays(delays[seen].astype(int), ages[seen].astype(int), 10_000, fields).by == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"window": None},
            "window: got None; expected when a row happened, when its positive label came, and how long",
        ),
        ({"window": "7d"}, "window: got '7d'; expected a number"),
        ({"window": str(30 * 86_400)}, "add older rows, or shorten the window"),
        ({"method": "gauss"}, "method: got 'gauss' with labels that may still come; expected one that maximises"),
        ({"label_time": "hour"}, "label_time: got a label before its event|time column|no moment"),
    ],
)
def test_what_cannot_be_used_is_named(log, change, message):
    with pytest.raises(InvalidInput, match=message):
        monocal.fit(log.slice(0, 40_000), **{"method": "platt", **COLUMNS, **LATE, **change})


def test_positives_without_a_moment_are_refused(log):
    rows = log.slice(0, 5_000).to_pydict()
    rows["label_time"] = [None] * 5_000
    with pytest.raises(InvalidInput, match="label_time: got a positive label without a moment in .* rows"):
        monocal.fit(rows, method="platt", **COLUMNS, **LATE)
