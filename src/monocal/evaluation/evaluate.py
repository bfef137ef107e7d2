"""From labels and predictions to one evaluation: each metric with its interval and its noise floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.errors import InvalidInput, check_known
from monocal.core.scores import (
    Floats,
    SamplingRate,
    ScoreSpace,
    check_score_space,
    check_weights,
    sampling_shift,
    sigmoid,
    to_logits,
)
from monocal.evaluation.result import Evaluation, EvaluationOptions
from monocal.metrics import METRICS, AnyMetric, Forecast, metric, values_of
from monocal.metrics.forecast import check_probabilities

HEADLINE_METRICS = ("log_loss", "auc", "gauc", "pcoc", "ece", "frce", "mfrce")
"""What is shown unless other metrics are asked for: discrimination, global bias, calibration, calibration by field."""


class ForecastColumns(TypedDict, total=False):
    """What a forecast may have beside labels and probabilities, as `evaluate` takes it."""

    fields: Mapping[str, Any] | None
    groups: Any | None
    weights: ArrayLike | None
    sampling_rate: SamplingRate
    scores_are: ScoreSpace
    soft_labels: bool
    units: Any | None


def evaluate(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    fields: Mapping[str, Any] | None = None,
    groups: Any | None = None,
    weights: ArrayLike | None = None,
    metrics: Sequence[str | AnyMetric] | None = None,
    sampling_rate: SamplingRate = None,
    scores_are: ScoreSpace = "probability",
    confidence: float = 0.95,
    n_bootstrap: int = 200,
    n_floor: int = 100,
    seed: int = 0,
    soft_labels: bool = False,
    units: Any | None = None,
) -> Evaluation:
    """Measures a forecast: every metric's value at once, its interval and its noise floor when asked.

    Arguments:
        labels: 0 or 1 per row.
        probabilities: The forecast, or its logits with `scores_are="logit"`.
        fields: Columns of any values by field name; `fece` and `frce` refer to the first, `mfece` and `mfrce` to all.
        groups: A column of any values, such as users: `gauc` is computed inside groups, and intervals resample groups.
        weights: Numbers ≥ 0; weight k means the row k times.
        metrics: Names or metric objects; None means all of `METRICS`. What cannot be computed is NaN with a reason.
        sampling_rate: The share of negatives that the forecaster was trained on, when it was trained on fewer; the
            forecast is brought back to the full traffic first.
        scores_are: "probability" or "logit".
        confidence: Coverage of intervals.
        n_bootstrap: Replicates behind an interval.
        n_floor: Label redraws behind a floor.
        seed: Seed of resampling and redrawing.
        soft_labels: Labels may be any numbers in [0, 1]: q stands for q positives and 1 − q negatives.
        units: A column of any values: rows that are one observation without being a group, such as the two rows of one
            soft label.

    Example:
        A forecast that predicts a quarter too much on every row:

        >>> rng = np.random.default_rng(0)
        >>> truth = rng.uniform(0.02, 0.3, 20_000)
        >>> labels = rng.random(20_000) < truth
        >>> report = evaluate(labels, 1.25 * truth, fields={"site": rng.integers(0, 50, 20_000)})
        >>> round(report.value("pcoc"), 2), [round(end, 2) for end in report.interval("pcoc")]
        (1.25, [1.21, 1.29])
        >>> report.value("ece") > 3 * report.floor("ece")
        True
        >>> report.reason("gauc")
        'no groups were given'
    """
    forecast = forecast_of(
        labels,
        probabilities,
        fields=fields,
        groups=groups,
        weights=weights,
        sampling_rate=sampling_rate,
        scores_are=scores_are,
        soft_labels=soft_labels,
        units=units,
    )
    return evaluate_forecast(forecast, EvaluationOptions(metrics, (), confidence, n_bootstrap, n_floor, seed))


def evaluate_forecast(forecast: Forecast, options: EvaluationOptions) -> Evaluation:
    """Returns the evaluation of rows that were checked, by the metrics of the options."""
    chosen = chosen_metrics(options.metrics)
    return Evaluation(chosen, values_of(chosen, forecast), forecast.n_observed_rows, options, forecast)


def forecast_of(labels: ArrayLike, probabilities: ArrayLike, **columns: Unpack[ForecastColumns]) -> Forecast:
    """Returns checked rows of full-traffic probabilities with fields and groups as ids; arguments as in `evaluate`.

    Example:
        A forecaster that saw one negative in ten says 0.5 where 1/11 is meant.

        >>> forecast_of([0, 1], [0.5, 0.5], sampling_rate=0.1).probabilities.round(4).tolist()
        [0.0909, 0.0909]
    """
    for name in columns:
        check_known("argument of a forecast", name, ForecastColumns.__annotations__)
    scores_are, weights = columns.get("scores_are", "probability"), columns.get("weights")
    check_score_space(scores_are)
    predicted = _full_traffic(probabilities, scores_are, columns.get("sampling_rate"))
    n = predicted.shape[0]
    if n == 0:
        raise InvalidInput.of(
            "probabilities", "no rows", "at least one row", "check the filter that produced the table"
        )

    def ids(column: Any, argument: str) -> Any:
        from monocal.tables.categories import encode_values  # loads pyarrow, which arrays alone do not need

        return None if column is None else encode_values(column, n, argument).ids

    return Forecast.of(
        labels,
        predicted,
        weights=None if weights is None else check_weights(weights, n),
        fields={name: ids(column, f"fields[{name!r}]") for name, column in _columns(columns.get("fields")).items()},
        groups=ids(columns.get("groups"), "groups"),
        units=ids(columns.get("units"), "units"),
        soft_labels=columns.get("soft_labels", False),
    )


def chosen_metrics(metrics: Sequence[str | AnyMetric] | None) -> dict[str, AnyMetric]:
    """Returns the wanted metrics by name, or says which name is unknown or given twice.

    Example:
        >>> list(chosen_metrics(["ece", metric("mce", bins=5)]))
        ['ece', 'mce']
    """
    if isinstance(metrics, str):
        raise InvalidInput.of("metrics", repr(metrics), "a list of names", f"write [{metrics!r}]")
    chosen: dict[str, AnyMetric] = {}
    for wanted in METRICS if metrics is None else metrics:
        found = metric(wanted) if isinstance(wanted, str) else wanted
        if found.name in chosen:
            raise InvalidInput.of("metrics", f"{found.name} twice", "each metric once", "make two evaluations")
        chosen[found.name] = found
    return chosen


def _columns(fields: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise InvalidInput.of(
            "fields", f"a {type(fields).__name__}", "columns by name", 'pass a dictionary such as {"site": column}'
        )
    return fields


def _full_traffic(scores: ArrayLike, scores_are: ScoreSpace, sampling_rate: SamplingRate) -> Floats:
    if scores_are == "logit":
        logits = to_logits(scores, "logit", "probabilities")
        return sigmoid(logits + sampling_shift(sampling_rate, logits.shape[0]))
    probabilities = check_probabilities(scores)
    if sampling_rate is None:
        return probabilities
    # the odds are multiplied directly, so that 0 and 1 stay 0 and 1
    rate = np.exp(sampling_shift(sampling_rate, probabilities.shape[0]))
    corrected: Floats = rate * probabilities / (rate * probabilities + (1.0 - probabilities))
    return corrected


def headline_metrics(*, has_fields: bool, has_groups: bool) -> list[str]:
    """Returns the headline metrics that can be computed.

    Example:
        >>> headline_metrics(has_fields=False, has_groups=False)
        ['log_loss', 'auc', 'pcoc', 'ece']
    """
    needs = {"gauc": has_groups, "frce": has_fields, "mfrce": has_fields}
    return [name for name in HEADLINE_METRICS if needs.get(name, True)]
