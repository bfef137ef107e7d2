"""Bad input is named, undefined values explain themselves."""

import math

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.metrics import METRICS, Forecast, metric


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0, 1], [0.1, math.nan]), "probabilities: got nan at row 1 (1 such rows); expected finite numbers"),
        (([0, 1], [0.1, 1.2]), "probabilities: got 1.2 at row 1; expected numbers in [0, 1]. Hint: pass scores_are"),
        (([0, 1], [-0.1, 0.2]), "probabilities: got -0.1 at row 0"),
        (([0, 1], ["a", "b"]), "probabilities: got values of type <U1; expected numbers"),
        (([0, 1], [[0.1, 0.2]]), "probabilities: got an array of shape (1, 2); expected one number per row"),
        (([0, 2], [0.1, 0.2]), "labels: got 2 at row 1; expected 0 or 1 in every row"),
        (([0, 1, 1], [0.1, 0.2]), "labels: got 3 rows; expected 2 rows"),
        ((1, [0.1, 0.2]), "labels: got an array of shape (); expected one number per row"),
    ],
)
def test_bad_columns(columns, message):
    with pytest.raises(InvalidInput) as caught:
        Forecast.of(*columns)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0, -2.0]}, "weights: got -2 at row 1; expected numbers that are zero or positive"),
        ({"weights": [1.0]}, "weights: got 1 rows; expected 2 rows"),
        ({"weights": [1.0, math.inf]}, "weights: got inf at row 1"),
        ({"fields": {"site": [0]}}, "fields['site']: got 1 rows; expected 2 rows"),
        (
            {"fields": {"site": ["a", "b"]}},
            "fields['site']: got an array of type <U1 and shape (2,); expected one integer",
        ),
        ({"fields": {"site": [0, -1]}}, "fields['site']: got ids from -1 to 0; expected ids from 0 to 134217727"),
        ({"fields": {"site": [0, 1 << 40]}}, "expected ids from 0 to 134217727. Hint: number the values 0, 1, 2"),
        ({"groups": [0.5, 1.0]}, "groups: got an array of type float64"),
    ],
)
def test_bad_weights_fields_and_groups(options, message):
    with pytest.raises(InvalidInput) as caught:
        Forecast.of([0, 1], [0.1, 0.2], **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", METRICS)
def test_no_rows_is_undefined(name):
    rows = Forecast.of([], [], fields={"a": []}, groups=[])
    value = metric(name).of(rows)
    assert math.isnan(value.number)
    assert value.reason == "no rows"


@pytest.mark.parametrize(
    ("name", "label", "reason"),
    [
        ("auc", 0, "all labels are 0, so there is no pair to rank"),
        ("auc", 1, "all labels are 1, so there is no pair to rank"),
        ("gauc", 0, "no group has both labels"),
        ("ne", 0, "all labels are 0, so a constant forecast has entropy 0"),
        ("ne", 1, "all labels are 1, so a constant forecast has entropy 0"),
        ("pcoc", 0, "no positive label to divide by"),
        ("rce", 0, "no bin has a positive label to divide by"),
        ("frce", 0, "no value of the field has a positive label to divide by"),
        ("mfrce", 0, "a: no value has a positive label to divide by"),
        ("cal_n", 0, "no cluster has a positive label to divide by"),
    ],
)
def test_one_class_is_undefined_with_a_reason(name, label, reason):
    rows = Forecast.of([label] * 4, [0.1, 0.2, 0.3, 0.4], fields={"a": [0, 0, 1, 1]}, groups=[0, 0, 1, 1])
    value = metric(name).of(rows)
    assert math.isnan(value.number)
    assert value.reason == reason


@pytest.mark.parametrize(
    "name", ["log_loss", "brier", "ece", "adaptive_ece", "mce", "fece", "mfece", "mvce", "smooth_ece"]
)
def test_one_class_is_defined_where_it_can_be(name):
    rows = Forecast.of([0, 0], [0.25, 0.25], fields={"a": [0, 0]})
    assert metric(name).of(rows).number > 0.0


@pytest.mark.parametrize(
    ("name", "reason"),
    [(name, "no field was given") for name in ("fece", "mfece", "frce", "mfrce")] + [("gauc", "no groups were given")],
)
def test_missing_columns_are_the_reason(name, reason):
    assert metric(name).of(Forecast.of([0, 1], [0.1, 0.9])).reason == reason


def test_log_loss_is_finite_for_every_forecast():
    assert metric("log_loss").of(Forecast.of([0, 1], [1.0, 0.0])).number == pytest.approx(-math.log(1e-7))


def test_cal_n_is_infinite_when_positives_were_called_impossible():
    assert metric("cal_n", bins=2).of(Forecast.of([1, 1], [0.0, 0.5])).number == math.inf


def test_unknown_metric_gets_a_suggestion():
    with pytest.raises(UnknownName, match=r"metric: got 'log_los'; expected one of auc, .* did you mean 'log_loss'\?"):
        metric("log_los")


def test_unknown_option_gets_a_suggestion():
    with pytest.raises(UnknownName, match=r"option of ece: got 'n_bins'; .* did you mean 'bins'\?"):
        metric("ece", n_bins=10)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ece", {"bins": 0}, "bins: got 0; expected a whole number ≥ 1"),
        ("cal_n", {"bins": -1}, "bins: got -1"),
        ("auc", {"cells": 0}, "cells: got 0"),
        ("mvce", {"parts": 0}, "parts: got 0"),
        ("smooth_ece", {"bandwidth": 0.0}, "bandwidth: got 0.0; expected a number above 0"),
        ("smooth_ece", {"grid": 0}, "grid: got 0"),
        ("frce", {"normalise": "rows"}, 'normalise: got \'rows\'; expected "kept" or "all"'),
        ("frce", {"smoothing": -1.0}, "smoothing: got -1.0; expected a number ≥ 0"),
        ("ece", {"precision": "half"}, 'precision: got \'half\'; expected "double" or "single"'),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(InvalidInput) as caught:
        metric(name, **options)
    assert message in str(caught.value)


def test_states_of_different_fields_do_not_merge():
    one, other = (Forecast.of([1], [0.5], fields={name: [0]}) for name in ("site", "app"))
    chosen = metric("fece")
    with pytest.raises(InvalidInput, match="states of the same metric on the same fields"):
        chosen.merge(chosen.summarize(one), chosen.summarize(other))


def test_an_exact_state_and_a_sketch_do_not_merge():
    rows = Forecast.of([0, 1], [0.2, 0.5])
    with pytest.raises(InvalidInput, match="an exact state and a sketch"):
        metric("auc").merge(metric("auc").summarize(rows), metric("auc", cells=8).summarize(rows))


def test_later_batches_may_bring_new_field_values():
    chosen = metric("fece")
    small, large = Forecast.of([1], [0.5], fields={"a": [0]}), Forecast.of([0], [0.25], fields={"a": [9]})
    assert chosen.value(chosen.merge(chosen.summarize(small), chosen.summarize(large))).number == pytest.approx(0.375)


def test_summaries_that_grow_with_the_rows_say_so():
    growing = {name for name in METRICS if not metric(name).summary.bounded}
    assert growing == {"auc", "gauc", "ndcg", "adaptive_ece", "cal_n", "mvce"}
    assert all(metric(name, cells=64).summary.bounded for name in growing - {"mvce", "ndcg"})


def test_a_sketch_does_not_grow_with_the_rows():
    rng = np.random.default_rng(0)
    chosen = metric("auc", cells=100)
    state = chosen.summarize(Forecast.of([0, 1], [0.1, 0.2]))
    for _ in range(20):
        p = rng.random(500)
        state = chosen.merge(state, chosen.summarize(Forecast.of(rng.integers(0, 2, 500), p)))
    assert state.weight.shape[0] <= 100
    assert state.weight.sum() == 10_002
