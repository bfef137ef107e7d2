"""From columns to a report."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.evaluation.evaluate import evaluate
from monocal.metrics import METRICS, metric
from monocal.tables.categories import encode_values


@pytest.fixture
def report(t10):
    return evaluate(t10.y, t10.s, fields={"z": t10.z, "g": t10.g}, groups=t10.z, n_bootstrap=20, n_floor=20)


def test_raw_field_values_are_encoded_and_everything_is_json(report, t10):
    assert report.names == tuple(METRICS)
    assert [report.value(name) for name in ("mfrce", "frce", "gauc")] == pytest.approx([0.40375, 0.2875, 0.5])
    assert evaluate(t10.y, t10.s, metrics=["auc", metric("ece", bins=5)]).value("ece") == pytest.approx(0.182)
    found = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert found["n_rows"] == 10
    assert found["metrics"]["ece"]["value"] == pytest.approx(0.388)
    assert set(found["metrics"]) == set(METRICS)


def test_every_number_comes_with_interval_and_floor(report):
    for name in ("ece", "auc", "pcoc"):
        low, high = report.interval(name)
        assert low <= report.value(name) <= high
    for name in ("ece", "pcoc"):
        floor_low, floor_high = report.floor_interval(name)
        assert floor_low <= report.floor(name) <= floor_high
    assert report.excess("ece") == pytest.approx(report.value("ece") - report.floor("ece"))


@pytest.mark.parametrize("name", ["log_loss", "ne", "brier", "auc", "gauc"])
def test_what_rewards_knowing_more_has_no_floor(report, name):
    """A timid forecast has a log-loss below what it would have if it were right: that is not better than perfect."""
    assert math.isnan(report.floor(name))
    assert math.isnan(report.excess(name))
    assert all(math.isnan(end) for end in report.floor_interval(name))
    assert math.isfinite(report.expected(name))
    timid = evaluate([0, 1] * 500, [0.3, 0.7] * 500, metrics=["log_loss", "ece"])
    assert timid.value("log_loss") < timid.expected("log_loss")
    assert timid.excess("ece") > 0.0


def test_undefined_numbers_keep_their_reason(t10):
    report = evaluate(t10.y, t10.s, metrics=["ece", "gauc"])
    for number in (report.value("gauc"), *report.interval("gauc"), report.floor("gauc"), report.excess("gauc")):
        assert math.isnan(number)
    assert report.reason("gauc") == "no groups were given"
    with pytest.raises(UnknownName, match="did you mean 'ece'"):
        report.interval("eces")
    entry = report.as_dict()["metrics"]["gauc"]
    assert entry["value"] is None
    assert entry["reason"] == "no groups were given"


def test_repr_is_short_and_the_table_is_printed(t10):
    report = evaluate(t10.y, t10.s, metrics=["ece", "gauc"], n_bootstrap=20, n_floor=20)
    assert repr(report) == "Evaluation of 2 metrics on 10 rows; print it for the table"
    assert not report._resampled
    head, first, last = str(report).splitlines()
    assert head.split() == ["metric", "value", "low", "high", "floor", "excess", "goal", "reason"]
    assert first.split()[:2] == ["ece", "0.388"]
    assert last.endswith("no groups were given")


@pytest.mark.parametrize(
    "column",
    [
        ["x", "y", "x", None],
        np.array(["x", "y", "x", None], dtype=object),
        pd.Series(["x", "y", "x", "z"], dtype="category", index=[9, 8, 7, 6]),
        pl.Series(["x", "y", "x", None]),
        pa.chunked_array([["x", "y"], ["x", None]]),
        np.array([1 << 60, -5, 1 << 60, 7]),
        np.array([0.5, 1.5, 0.5, np.nan]),
        np.array([True, False, True, False]),
        (1, 2, 1, 3),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_any_column_is_a_field(column):
    """Rows 0 and 2 share a value, in which one label of 1 is predicted by halves; a missing value is one of its own."""
    found = evaluate([1, 0, 0, 0], [0.5, 0.25, 0.5, 0.25], fields={"site": column}, metrics=["fece"])
    assert found.value("fece") == pytest.approx((0.0 + 0.25 + 0.25) / 4)
    encoded = encode_values(column, 4, "site")
    back = encoded.decode(encoded.ids)
    assert back[0] == back[2] != back[1]


def test_sampling_rate_brings_the_forecast_back_to_full_traffic():
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.01, 0.1, 40_000)
    labels = rng.random(40_000) < truth
    odds = 10.0 * truth / (1.0 - truth)
    seen = odds / (1.0 + odds)
    assert evaluate(labels, seen, metrics=["pcoc"]).value("pcoc") > 4.0
    corrected = evaluate(labels, seen, metrics=["pcoc"], sampling_rate=0.1)
    assert np.allclose(corrected.forecast.probabilities, truth)
    ends = evaluate([0, 1], [0.0, 1.0], metrics=["ece"], sampling_rate=0.1)
    assert ends.forecast.probabilities.tolist() == [0.0, 1.0]
    by_logit = evaluate(labels, np.log(odds), metrics=["pcoc"], sampling_rate=0.1, scores_are="logit")
    assert by_logit.value("pcoc") == pytest.approx(corrected.value("pcoc"))


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        (([], []), {}, "probabilities: got no rows"),
        (([0, 1], [0.1, math.nan]), {"scores_are": "logit"}, "probabilities: got nan at row 1"),
        (([0, 1], [0.1, 0.2]), {"weights": [0.0, 0.0]}, "weights: got only zeros"),
        (([0, 1], [0.1, 0.2]), {"fields": {"site": ["a", 1]}}, r"fields\['site'\]: got values that are not one column"),
        (([0, 1], [0.1, 0.2]), {"fields": [[1, 2]]}, "fields: got a list; expected columns by name"),
        (([0, 1], [0.1, 0.2]), {"groups": [1, 2, 3]}, "groups: got 3 rows; expected 2 rows"),
        (([0, 1], [0.1, 0.2]), {"scores_are": "odds"}, "scores_are: got 'odds'"),
        (([0, 1], [0.1, 0.2]), {"sampling_rate": 0.0}, r"sampling_rate: got 0; expected .* in \(0, 1\]"),
        (([0, 1], [0.1, 0.2]), {"sampling_rate": 1.01}, r"sampling_rate: got 1.01; expected .* in \(0, 1\]"),
        (([0, 1], [0.1, 0.2]), {"metrics": "ece"}, r"metrics: got 'ece'; .* write \['ece'\]"),
        (([0, 1], [0.1, 0.2]), {"metrics": ["ece", "ece"]}, "metrics: got ece twice"),
        (([0, 1], [0.1, 0.2]), {"metrics": ["eec"]}, "metric: got 'eec'"),
        (([0, 1], [0.1, 0.2]), {"confidence": 95}, "confidence: got 95"),
        (([0, 1], [0.1, 0.2]), {"n_floor": 1}, "n_floor: got 1"),
    ],
)
def test_bad_input_is_named(columns, options, problem):
    with pytest.raises(InvalidInput, match=problem):
        evaluate(*columns, **options)
