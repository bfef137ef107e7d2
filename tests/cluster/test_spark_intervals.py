"""Intervals and noise floors of tables that stay on a cluster, beside those of one machine."""

import math

import numpy as np
import pyarrow as pa
import pytest

import monocal
import monocal.spark as ms
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.evaluation.table import evaluate_table
from monocal.metrics import Forecast, metric
from monocal.metrics.resample import replicates_of_blocks
from monocal.spark.resampling import blocks_of_groups

SUMS = ["log_loss", "ne", "brier", "pcoc", "ece", "rce", "mce"]
MEANS = ["gauc", "ndcg"]
WITHOUT = ["auc", "smooth_ece", "fece", "mvce"]
GIVEN = {"metrics": [*SUMS, *MEANS, *WITHOUT], "weight": "weight", "fields": ["device"], "group": "user_id"}
RESAMPLING = {"n_bootstrap": 1_000, "seed": 4}


@pytest.fixture(scope="module")
def model(rows):
    return monocal.fit(rows.slice(0, 6_000), method="platt", score="pctr", label="click")


@pytest.fixture(scope="module")
def found(spark, folder, model):
    """Users are resampled."""
    return ms.evaluate(spark.read.parquet(str(folder)), model=model, intervals=True, **GIVEN, **RESAMPLING)


@pytest.fixture(scope="module")
def local(rows, model):
    with pytest.warns(MonocalWarning, match="fitted on"):  # numbers are compared, not believed
        return evaluate_table(rows, model=model, **GIVEN, **RESAMPLING).tasks["click"]


def width(interval):
    return interval[1] - interval[0]


def test_the_same_blocks_of_users_give_the_replicates_of_one_machine(found, rows, model):
    blocks = blocks_of_groups(rows["user_id"].cast(pa.string()).combine_chunks())
    forecast = Forecast.of(rows["click"].to_numpy(), model.predict(rows), weights=rows["weight"].to_numpy())
    for name in SUMS:
        state = metric(name).summary.by_block(forecast, blocks, 512)
        expected = replicates_of_blocks({name: metric(name)}, state, RESAMPLING["n_bootstrap"], RESAMPLING["seed"])
        assert found.tasks["click"].replicates(name) == pytest.approx(expected[name], rel=1e-12)


@pytest.mark.parametrize("name", [*SUMS, *MEANS])
def test_intervals_and_floors_are_those_of_one_machine_but_for_chance(found, local, name):
    for stage in ("before", "after"):
        one, report = found.tasks["click"].stages[stage], local.stages[stage]
        assert one.value(name) == pytest.approx(report.value(name), rel=1e-12)
        assert one.interval_reason(name) == ""
        low, high = one.interval(name)
        assert low <= one.value(name) <= high
        # 512 blocks leave 3 % open and the ends of 1,000 replicates 5 %, on both sides
        assert width((low, high)) == pytest.approx(width(report.interval(name)), rel=0.25)
        if math.isnan(report.floor(name)):
            assert math.isnan(one.floor(name))
        else:
            assert one.floor(name) == pytest.approx(report.floor(name), abs=width(report.floor_interval(name)) / 4)


@pytest.mark.parametrize("name", [*SUMS, *MEANS])
def test_differences_are_paired(found, local, name):
    change, expected = found.tasks["click"].change, local.change
    assert change.difference(name) == pytest.approx(expected.difference(name), rel=1e-9, abs=1e-15)
    assert change.verdict(name) == expected.verdict(name)
    if name == "log_loss":  # both forecasts share their noise, so the difference has less of it than they have
        assert width(change.interval(name)) < 0.7 * width(found.tasks["click"].before.interval(name))


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_not_a_few_sums_has_no_interval_and_says_why(found, name):
    one = found.tasks["click"]
    assert np.isnan(one.interval(name)).all()
    reason = "needs every row in one place" if name == "mvce" else "too many numbers for each of 512 blocks of rows"
    assert one.interval_reason(name) == reason
    assert one.as_dict()["metrics"][name]["interval"] == [None, None]


def test_rows_are_resampled_where_there_are_no_groups(spark, folder, rows):
    given = {"score": "pctr", "label": "click", "metrics": ["log_loss", "pcoc"]}
    df = spark.read.parquet(str(folder))
    found = ms.evaluate(df, **given, intervals=True, **RESAMPLING).tasks["click"]
    report = evaluate_table(rows, **given, **RESAMPLING).tasks["click"]
    for name in given["metrics"]:
        assert width(found.interval(name)) == pytest.approx(width(report.interval(name)), rel=0.25)
    again = ms.evaluate(df, **given).tasks["click"]
    assert again.interval_reason("pcoc") == "not asked for"
    assert again.value("pcoc") == found.value("pcoc")
    with pytest.raises(InvalidInput, match="n_bootstrap: got 1; expected at least 2"):
        ms.evaluate(df, **given, intervals=True, n_bootstrap=1)
