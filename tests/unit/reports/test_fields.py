"""Field values find what was planted, and only that."""

import numpy as np
import pytest

import monocal
from monocal.evaluation.table import evaluate_table
from monocal.reports.data import build_report, field_results


def test_only_the_planted_value_is_flagged_and_calibration_mends_it(evaluated, world):
    truth, labels, rng = world
    site, hour = rng.integers(0, 200, 40_000), rng.integers(0, 24, 40_000)
    _, metrics = evaluated(labels, np.where(site == 3, 2.0 * truth, truth), truth, site=site, hour=hour)
    found = {field.name: field for field in field_results(metrics)}
    before = found["site"].errors["before"]
    (place,) = before.flagged.nonzero()[0]
    assert found["site"].values[place] == "site_3"
    alarms = [found["site"].errors["after"], *found["hour"].errors.values()]
    assert sum(errors.n_flagged for errors in alarms) == 0
    assert before.low[place] < 2.0 < before.high[place]
    assert 1.0 < before.cells.shrunk_pcoc[place] < before.cells.pcoc[place]
    assert before.is_significant
    assert not any(errors.is_significant for errors in alarms)


def test_a_right_forecast_raises_few_alarms(evaluated):
    rng = np.random.default_rng(11)
    alarms = []
    for _ in range(60):
        truth = rng.uniform(0.02, 0.2, 6_000)
        fields = {f"f{size}": rng.integers(0, size, 6_000) for size in (3, 10, 40, 400)}
        _, metrics = evaluated(rng.random(6_000) < truth, truth, **fields)
        found = [table.errors for table in metrics.by.values()]
        alarms.append(any(errors.is_significant for errors in found))
        assert all(errors.is_significant or errors.n_flagged == 0 for errors in found)
    assert np.mean(alarms) <= 0.13


def test_a_small_field_is_not_punished_for_a_large_one(evaluated, world):
    truth, labels, rng = world
    device, site = rng.integers(0, 4, 40_000), rng.integers(0, 8_000, 40_000)
    forecast = np.where(device == 2, 1.15 * truth, truth)
    for others in ({}, {"site": site}):
        found = evaluated(labels, forecast, device=device, **others)[1].by["device"]
        assert [value for value, is_off in zip(found.values, found["flagged"], strict=True) if is_off] == ["device_2"]


def test_shown_values_are_the_worst_and_the_largest(evaluated, world):
    truth, labels, _ = world
    site = np.minimum(np.arange(40_000) // 100, 300)
    _, metrics = evaluated(labels, np.where(site == 250, 3.0 * truth, truth), site=site)
    (found,) = field_results(metrics, n_shown=10)
    shown = [found.values[place] for place in found.shown]
    assert len(shown) == len(set(shown)) == 10
    assert shown[0] == "site_250"
    assert "site_300" in shown


@pytest.mark.filterwarnings("ignore:the model was fitted on about")
def test_a_report_flags_what_an_evaluation_flags_as_wide_as_groups_ask_for():
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(2_000), 10)
    # every user clicks always or never, so that ten rows say no more than one
    labels = (rng.random(2_000) < 0.2).astype(int)[user]
    site, hour = rng.integers(0, 60, 2_000)[user], rng.integers(0, 24, 20_000)
    table = {"p": np.where(site == 0, 0.9, 0.2), "y": labels, "site": site, "hour": hour, "user": user}
    model = monocal.fit(table, method="none", score="p", label="y", fields=["site", "hour"])
    report = build_report(model, table, group="user", n_bootstrap=2, n_floor=2).task()
    by = evaluate_table(table, model=model, by=["site", "hour"], group="user", n_bootstrap=2).tasks["y"].by
    for result in report.fields:
        flagged = by[result.name]["flagged"]
        assert result.errors["after"].flagged.tolist() == flagged.tolist()
        assert [result.values[place] for place in np.flatnonzero(flagged)] == (["0"] if result.name == "site" else [])
