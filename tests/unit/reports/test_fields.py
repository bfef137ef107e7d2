"""Field values find what was planted, and only that."""

import numpy as np
import pytest

import monocal
from monocal.evaluation.table import evaluate_table
from monocal.reports.data import build_report
from monocal.reports.fields import field_results


def test_only_the_planted_value_is_flagged_and_calibration_mends_it(make_rows, world):
    truth, labels, rng = world
    site, hour = rng.integers(0, 200, 40_000), rng.integers(0, 24, 40_000)
    rows = make_rows(labels, np.where(site == 3, 2.0 * truth, truth), truth, {"site": site, "hour": hour})
    found = {field.name: field for field in field_results(rows)}
    before = found["site"].errors.before
    assert before.flagged.nonzero()[0].tolist() == [3]
    assert found["site"].errors.after.n_flagged + sum(side.n_flagged for side in found["hour"].errors) == 0
    assert before.low[3] < 2.0 < before.high[3]
    assert 1.0 < before.cells.shrunk_pcoc[3] < before.cells.pcoc[3]
    assert before.is_significant
    assert not any(field.errors.after.is_significant for field in found.values())


def test_a_right_forecast_raises_few_alarms(make_rows):
    rng = np.random.default_rng(11)
    alarms = []
    for _ in range(60):
        truth = rng.uniform(0.02, 0.2, 6_000)
        fields = {f"f{size}": rng.integers(0, size, 6_000) for size in (3, 10, 40, 400)}
        found = field_results(make_rows((rng.random(6_000) < truth).astype(float), truth, fields=fields))
        found = [field.errors.after for field in found]
        alarms.append(any(errors.is_significant for errors in found))
        assert all(errors.is_significant or errors.n_flagged == 0 for errors in found)
    assert np.mean(alarms) <= 0.13


def test_a_small_field_is_not_punished_for_a_large_one(make_rows, world):
    truth, labels, rng = world
    device, site = rng.integers(0, 4, 40_000), rng.integers(0, 8_000, 40_000)
    forecast = np.where(device == 2, 1.15 * truth, truth)
    alone = field_results(make_rows(labels, forecast, fields={"device": device}))[0]
    together = field_results(make_rows(labels, forecast, fields={"device": device, "site": site}))[0]
    expected = [False, False, True, False]
    assert alone.errors.before.flagged.tolist() == together.errors.before.flagged.tolist() == expected


def test_the_long_tail_is_shrunk_not_folded(make_rows, world):
    truth, labels, rng = world
    rare = np.minimum(rng.zipf(1.5, 40_000), 3_000)
    _, ids = np.unique(rare, return_inverse=True)
    (found,) = field_results(make_rows(labels, truth, fields={"site": ids}))
    assert len(found.values) == ids.max() + 1
    before = found.errors.before
    silent = before.cells.observed == 0.0
    assert silent.any()
    assert np.isnan(before.cells.pcoc[silent]).all()
    assert np.isinf(before.high[silent]).all()
    assert np.isfinite(before.cells.shrunk_pcoc).all()
    assert np.abs(np.log(before.cells.shrunk_pcoc)).max() < 0.5


def test_shown_values_are_the_worst_and_the_largest(make_rows, world):
    truth, labels, _ = world
    site = np.minimum(np.arange(40_000) // 100, 300)
    rows = make_rows(labels, np.where(site == 250, 3.0 * truth, truth), fields={"site": site})
    (found,) = field_results(rows, n_shown=10)
    assert len(found.shown) == len(set(found.shown.tolist())) == 10
    assert found.shown[0] == 250
    assert 300 in found.shown


@pytest.mark.filterwarnings("ignore:the model was fitted on about")
def test_the_report_and_an_evaluation_flag_the_same_values():
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(2_000), 10)
    # every user clicks always or never, so that ten rows say no more than one
    labels = (rng.random(2_000) < 0.2).astype(int)[user]
    site, hour = rng.integers(0, 60, 2_000)[user], rng.integers(0, 24, 20_000)
    p = np.where(site == 0, 0.9, 0.2)
    table = {"p": p, "y": labels, "site": site, "hour": hour, "user": user}
    model = monocal.fit(table, method="none", score="p", label="y", fields=["site", "hour"])
    report = build_report(model, table, group="user", n_bootstrap=2, n_floor=2).task()
    judged = evaluate_table(table, model=model, by=["site", "hour"], group="user", n_bootstrap=2).tasks["y"]
    flagged = {}
    for result in report.fields:
        errors, by = result.errors.after, judged.by[result.name]
        flagged[result.name] = {value for value, is_off in zip(result.values, errors.flagged, strict=True) if is_off}
        assert flagged[result.name] == {str(v) for v, is_off in zip(by.values, by["flagged"], strict=True) if is_off}
        assert sorted(by["p_value"]) == pytest.approx(sorted(errors.cells.p_values))
    assert flagged == {"site": {"0"}, "hour": set()}
