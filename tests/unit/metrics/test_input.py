"""Bad input is named, undefined values explain themselves, and only what belongs together is merged."""

import math

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.metrics import METRICS, Forecast, metric

TWO = ([0, 1], [0.1, 0.2])


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        (([0, 1], [0.1, math.nan]), {}, r"probabilities: got nan at row 1 \(1 such rows\)"),
        (([0, 1], [0.1, 1.2]), {}, r"probabilities: got 1.2 at row 1.*pass scores_are"),
        (([0, 1], ["a", "b"]), {}, "probabilities: got values of type <U1"),
        (([0, 1], [[0.1, 0.2]]), {}, r"probabilities: got an array of shape \(1, 2\)"),
        (([0, 2], [0.1, 0.2]), {}, "labels: got 2 at row 1"),
        (([0, 1, 1], [0.1, 0.2]), {}, "labels: got 3 rows; expected 2 rows"),
        (TWO, {"weights": [1.0, -2.0]}, "weights: got -2 at row 1"),
        (TWO, {"weights": [1.0, math.inf]}, "weights: got inf at row 1"),
        (TWO, {"fields": {"site": [0]}}, r"fields\['site'\]: got 1 rows; expected 2"),
        (TWO, {"fields": {"site": ["a", "b"]}}, r"fields\['site'\]: got an array of type <U1"),
        (TWO, {"fields": {"site": [0, 1 << 40]}}, "expected ids from 0 to 134217727"),
        (TWO, {"groups": [0, -1]}, "groups: got ids from -1 to 0"),
    ],
)
def test_bad_columns_are_named(columns, options, problem):
    with pytest.raises(InvalidInput, match=problem):
        Forecast.of(*columns, **options)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("ece", {"bins": 0}, "bins: got 0"),
        ("brier", {"bins": 0}, "bins: got 0"),
        ("adaptive_ece", {"bins": -1}, "bins: got -1"),
        ("auc", {"cells": 0}, "cells: got 0"),
        ("ece", {"n_bins": 10}, r"option of ece: got 'n_bins'; .* did you mean 'bins'\?"),
        ("log_los", {}, r"metric: got 'log_los'; .* did you mean 'log_loss'\?"),
    ],
)
def test_bad_options_are_named(name, options, problem):
    with pytest.raises((InvalidInput, UnknownName), match=problem):
        metric(name, **options)


@pytest.mark.parametrize("name", METRICS)
def test_no_rows_is_undefined(name):
    value = metric(name).of(Forecast.of([], [], fields={"a": []}, groups=[]))
    assert math.isnan(value.number)
    assert value.reason == "no rows"


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("name", METRICS)
def test_one_class_has_a_value_where_it_can_and_a_reason_elsewhere(name, label):
    reasons = {"auc": "no pair to rank", "ne": "a constant forecast has entropy 0", "gauc": "no group has both labels"}
    if label == 0:
        reasons |= dict.fromkeys(("pcoc", "rce", "frce", "mfrce"), "positive label to divide by")
        reasons["ndcg"] = "no list has a positive row"
    rows = Forecast.of([label] * 4, [0.1, 0.2, 0.3, 0.4], fields={"a": [0, 0, 1, 1]}, groups=[0, 0, 1, 1])
    value = metric(name).of(rows)
    assert math.isnan(value.number) == bool(value.reason) == (name in reasons)
    assert reasons.get(name, "") in value.reason


@pytest.mark.parametrize("name", ["fece", "mfece", "frce", "mfrce", "gauc", "ndcg"])
def test_missing_columns_are_the_reason(name):
    reason = metric(name).of(Forecast.of([0, 1], [0.1, 0.9])).reason
    assert reason == ("no groups were given" if name in ("gauc", "ndcg") else "no field was given")


def test_a_confident_error_costs_a_limited_loss():
    assert metric("log_loss").of(Forecast.of([0, 1], [1.0, 0.0])).number == pytest.approx(-math.log(1e-7))


def test_only_states_of_the_same_kind_merge():
    one, other = (metric("fece").summarize(Forecast.of([1], [0.5], fields={name: [0]})) for name in ("site", "app"))
    with pytest.raises(InvalidInput, match="states of the same metric on the same fields"):
        metric("fece").merge(one, other)
    rows = Forecast.of([0, 1], [0.2, 0.5])
    with pytest.raises(InvalidInput, match="an exact state and a sketch"):
        metric("auc").merge(metric("auc").summarize(rows), metric("auc", cells=8).summarize(rows))


@pytest.mark.parametrize("name", ["gauc", "ndcg"])
def test_pieces_with_and_without_groups_do_not_merge(name):
    chosen = metric(name)
    grouped = chosen.summarize(Forecast.of([0, 1, 1], [0.2, 0.4, 0.3], groups=[0, 0, 1]))
    alone = chosen.summarize(Forecast.of([0, 1, 1], [0.2, 0.4, 0.3]))
    for pieces in ((grouped, alone), (alone, grouped)):
        with pytest.raises(InvalidInput, match="groups for all rows or for none"):
            chosen.merge(*pieces)


def test_a_stream_may_bring_new_values_and_rows_without_weight():
    chosen = metric("fece")
    small, large = Forecast.of([1], [0.5], fields={"a": [0]}), Forecast.of([0], [0.25], fields={"a": [9]})
    assert chosen.value(chosen.merge(chosen.summarize(small), chosen.summarize(large))).number == pytest.approx(0.375)
    chosen, something = metric("log_loss"), Forecast.of([0, 1], [0.2, 0.7])
    nothing = chosen.summarize(Forecast.of([0, 1], [0.2, 0.7], weights=[0.0, 0.0]))
    assert chosen.value(chosen.merge(nothing, chosen.summarize(something))) == chosen.of(something)


def test_summaries_that_grow_with_the_rows_say_so_and_sketches_do_not_grow():
    growing = {name for name in METRICS if not metric(name).summary.bounded}
    assert growing == {"auc", "gauc", "ndcg", "adaptive_ece"}
    assert all(metric(name, cells=64).summary.bounded for name in ("auc", "adaptive_ece"))
    rng, chosen = np.random.default_rng(0), metric("auc", cells=100)
    state = chosen.summarize(Forecast.of([0, 1], [0.1, 0.2]))
    for _ in range(20):
        state = chosen.merge(state, chosen.summarize(Forecast.of(rng.integers(0, 2, 500), rng.random(500))))
    assert state.weight.shape[0] <= 100
    assert state.weight.sum() == 10_002
