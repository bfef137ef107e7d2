"""Every exported metric keeps every law."""

import importlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import monocal.metrics
from monocal.metrics import METRICS, Forecast, Metric, Summary, Value, metric
from monocal.metrics.base import maximize, minimize
from monocal.testing.metric_laws import LAWS, check_metric, sample_forecast

_SKETCHES = [(name, {"cells": 512}) for name in ("auc", "adaptive_ece")]
_VARIANTS = [("rce", {"bins": 7}), ("ndcg", {"top": 3})]
_ALL = [(name, {}) for name in METRICS] + _SKETCHES + _VARIANTS


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("name", "options"), _ALL, ids=str)
def test_law(name, options, law):
    law(metric(name, **options))


@pytest.mark.parametrize("name", [name for name, kind in METRICS.items() if np.isfinite(kind.limits).all()])
def test_the_best_and_the_worst_forecast_reach_the_limits(name):
    """Intervals are cut at the limits, so one that is too wide would go unnoticed elsewhere."""
    # a ranking needs both classes; an error is largest if all are wrong in the same direction
    labels = np.repeat([0.0, 1.0], 200) if METRICS[name].goal is maximize else np.zeros(400)
    more = {"fields": {"side": np.arange(400) % 2}, "groups": np.arange(400) % 4}
    found = [metric(name).of(Forecast.of(labels, p, **more)).number for p in (labels, 1.0 - labels)]
    assert sorted(found) == pytest.approx(metric(name).limits, abs=1e-3)


@pytest.mark.parametrize("name", METRICS)
def test_rows_without_weights_merge_with_rows_that_have_them(name):
    rows = sample_forecast(600, seed=5)
    chosen = metric(name)
    weights = np.where(np.arange(600) % 2, 1.0, 3.0)
    weighted = rows.take(np.arange(300, 600)).with_weights(weights[300:])
    merged = chosen.merge(chosen.summarize(rows.take(np.arange(300))), chosen.summarize(weighted))
    whole = rows.with_weights(np.where(np.arange(600) < 300, 1.0, weights))
    assert chosen.value(merged).number == pytest.approx(chosen.of(whole).number, rel=1e-9)


def subclasses(kind):
    """Every class below a class."""
    return {kind for below in kind.__subclasses__() for kind in (below, *subclasses(below))}


def test_every_metric_class_in_the_package_is_exported():
    for path in Path(monocal.metrics.__file__).parent.glob("*.py"):
        importlib.import_module(f"monocal.metrics.{path.stem}")
    # an abstract class has no name of its own
    written = {
        kind for kind in subclasses(Metric) if "name" in vars(kind) and kind.__module__.startswith("monocal.metrics.")
    }
    assert written == set(METRICS.values())
    assert {kind.__name__ for kind in written} <= set(monocal.metrics.__all__)


@pytest.mark.parametrize("name", METRICS)
def test_replicates_measure_the_same_as_the_metric(name):
    rows = sample_forecast(600, seed=11)
    chosen = metric(name)
    value = chosen.of(rows).number
    replay = chosen.summary.replay(rows)
    same_labels = chosen.value(replay.relabelled(np.flatnonzero(rows.labels))).number
    (same_weights,) = replay.reweighted(np.arange(rows.n_rows) % 5, np.ones((1, 5)))
    assert same_labels == pytest.approx(value, rel=1e-9)
    assert chosen.value(same_weights).number == pytest.approx(value, rel=1e-9)


# a list that is drawn twice counts twice in ndcg, while its rows repeated are a list of twice the length
@pytest.mark.parametrize("name", [name for name in METRICS if name != "ndcg"])
def test_resampled_blocks_equal_weighted_rows(name):
    rows = sample_forecast(600, seed=12)
    chosen = metric(name)
    of_group = np.random.default_rng(0).integers(0, 6, 600)
    blocks = of_group[rows.groups]
    count = np.array([0.0, 2.0, 1.0, 0.0, 3.0, 1.0])
    (state,) = chosen.summary.replay(rows).reweighted(blocks, count[None, :])
    assert chosen.value(state).number == pytest.approx(chosen.of(rows.with_weights(count[blocks])).number, rel=1e-9)


@dataclass(frozen=True)
class _LastLabel(Metric[float]):
    """Breaks laws on purpose."""

    name = "last_label"
    goal = maximize

    def _summary(self):
        return _LastLabelSummary()

    def _value(self, state):
        return Value(state)


@dataclass(frozen=True)
class _LastLabelSummary(Summary[float]):
    def summarize(self, forecast):
        return float(forecast.probabilities[-1]) if forecast.n_rows else 0.0

    def merge(self, a, b):
        return b


def test_a_metric_that_depends_on_row_order_is_caught():
    with pytest.raises(AssertionError, match=r"last_label: .* after shuffling the rows"):
        check_metric(_LastLabel())


@pytest.mark.parametrize(
    ("law", "broken", "message"),
    [
        ("check_goal_prefers_the_better_forecast", {"goal": maximize}, "prefers"),
        ("check_value_lies_within_its_limits", {"limits": (0.0, 1e-6)}, "outside its limits"),
        (
            "check_undefined_is_nan_with_a_reason",
            {"_value": lambda self, state: Value(0.0)},
            "no rows must be undefined",
        ),
    ],
)
def test_other_broken_laws_are_caught(law, broken, message):
    kind = type("Broken", (METRICS["ece"],), broken)
    (check,) = [known for known in LAWS if known.__name__ == law]
    assert METRICS["ece"].goal == minimize
    with pytest.raises(AssertionError, match=message):
        check(kind())
