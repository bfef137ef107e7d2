"""Laws that every metric keeps; run `check_metric` on your own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from monocal.core.scores import sigmoid
from monocal.metrics import AnyMetric, Forecast, Value

_TOLERANCE = 1e-9


def check_metric(metric: AnyMetric) -> None:
    """Checks a metric against every law; an AssertionError says which one is broken.

    Arguments:
        metric: Any metric, with any options.

    Example:
        >>> from monocal.metrics import metric
        >>> check_metric(metric("ece", bins=20))
    """
    for law in LAWS:
        law(metric)


def check_row_order_is_irrelevant(metric: AnyMetric) -> None:
    """Shuffled rows have the same value, ties included."""
    rows = sample_forecast(400, seed=1)
    shuffled = rows.take(np.random.default_rng(2).permutation(rows.n_rows))
    _assert_same(metric.of(rows), metric.of(shuffled), metric, "after shuffling the rows")


def check_merged_chunks_are_the_whole(metric: AnyMetric) -> None:
    """States of uneven pieces, an empty one among them, merge to the state of all rows, in any order."""
    rows = sample_forecast(300, seed=3)
    pieces = [rows.take(slice(*ends)) for ends in ((0, 7), (7, 7), (7, 160), (160, 300))]
    states = [metric.summarize(piece) for piece in pieces]
    forward = metric.merge(metric.merge(metric.merge(states[0], states[1]), states[2]), states[3])
    backward = metric.merge(states[3], metric.merge(states[2], metric.merge(states[1], states[0])))
    whole = metric.value(metric.summarize(rows))
    _assert_same(whole, metric.value(forward), metric, "after merging pieces")
    _assert_same(whole, metric.value(backward), metric, "after merging pieces backwards")


def check_weights_are_repetitions(metric: AnyMetric) -> None:
    """A row of weight k counts as k rows, and a row of weight 0 as none."""
    rows = sample_forecast(200, seed=4)
    times = np.random.default_rng(5).integers(0, 4, rows.n_rows)
    weighted = rows.with_weights(times.astype(np.float64))
    repeated = rows.take(np.repeat(np.arange(rows.n_rows), times))
    _assert_same(metric.of(weighted), metric.of(repeated), metric, "with weights in place of repeated rows")


def check_undefined_is_nan_with_a_reason(metric: AnyMetric) -> None:
    """The number is NaN exactly when there is a reason, whatever is missing; without rows there always is one."""
    rows = sample_forecast(50, seed=6)
    nothing = metric.of(rows.take(slice(0, 0)))
    assert nothing.reason, f"{metric.name}: no rows must be undefined, got {nothing.number}"
    weightless = metric.of(rows.with_weights(np.zeros(rows.n_rows)))
    assert weightless.reason, f"{metric.name}: rows without weight must be undefined, got {weightless.number}"
    poor = [
        rows.with_labels(np.zeros(rows.n_rows)),
        rows.with_labels(np.ones(rows.n_rows)),
        replace(rows, fields={}, groups=None),
        rows.take(slice(0, 1)),
    ]
    for value in (nothing, weightless, metric.of(rows), *map(metric.of, poor)):
        assert math.isnan(value.number) == bool(value.reason), (
            f"{metric.name}: got {value.number} with reason {value.reason!r}; NaN and a reason come together"
        )


def check_goal_prefers_the_better_forecast(metric: AnyMetric) -> None:
    """True probabilities are better than noisy, inflated ones."""
    better = sample_forecast(20_000, seed=7)
    noise = np.random.default_rng(8).normal(1.0, 1.5, better.n_rows)
    worse = replace(better, probabilities=sigmoid(np.log(better.probabilities / (1.0 - better.probabilities)) + noise))
    good, bad = metric.of(better).number, metric.of(worse).number
    assert metric.goal.is_better(good, than=bad), (
        f"{metric.name}: the goal {metric.goal} prefers {bad} of a distorted forecast to {good} of the truth"
    )


def check_value_lies_within_its_limits(metric: AnyMetric) -> None:
    """Values of ordinary and of absurd forecasts stay inside the limits that the metric declares."""
    rows = sample_forecast(300, seed=9)
    for forecast in (rows, replace(rows, probabilities=1.0 - rows.labels), replace(rows, probabilities=rows.labels)):
        number = metric.of(forecast).number
        low, high = metric.limits
        assert math.isnan(number) or low - _TOLERANCE <= number <= high + _TOLERANCE, (
            f"{metric.name}: {number} is outside its limits {metric.limits}"
        )


LAWS = (
    check_row_order_is_irrelevant,
    check_merged_chunks_are_the_whole,
    check_weights_are_repetitions,
    check_undefined_is_nan_with_a_reason,
    check_goal_prefers_the_better_forecast,
    check_value_lies_within_its_limits,
)
"""Every law, in order; each is a function of one metric."""


def sample_forecast(n_rows: int, seed: int) -> Forecast:
    """Returns rows with true probabilities, two fields, groups, and a quarter of the predictions tied.

    Example:
        >>> rows = sample_forecast(1000, seed=0)
        >>> rows.n_rows, list(rows.fields), bool(np.unique(rows.probabilities).size < 800)
        (1000, ['site', 'device'], True)
    """
    rng = np.random.default_rng(seed)
    probabilities = sigmoid(rng.normal(-1.0, 1.2, n_rows))
    tied = rng.random(n_rows) < 0.25
    probabilities[tied] = np.round(probabilities[tied], 1).clip(0.05, 0.95)
    return Forecast(
        labels=(rng.random(n_rows) < probabilities).astype(np.float64),
        probabilities=probabilities,
        fields={"site": rng.integers(0, 12, n_rows), "device": rng.integers(0, 3, n_rows)},
        groups=rng.integers(0, max(n_rows // 20, 2), n_rows),
    )


def _assert_same(expected: Value, found: Value, metric: AnyMetric, when: str) -> None:
    numbers = {"": (expected.number, found.number)}
    numbers |= {f" ({key})": (number, found.details.get(key, math.nan)) for key, number in expected.details.items()}
    for part, (wanted, other) in numbers.items():
        same = math.isclose(wanted, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) or (
            math.isnan(wanted) and math.isnan(other)
        )
        assert same, f"{metric.name}{part}: {wanted} became {other} {when}"
