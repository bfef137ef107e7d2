"""One pass for several metrics: those with equal summaries share states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monocal.metrics.base import AnyMetric, Summary, Value
from monocal.metrics.forecast import Forecast


def by_summary(metrics: Mapping[str, AnyMetric]) -> dict[Summary[Any], list[str]]:
    """Returns which of the named metrics live off the same state.

    Example:
        >>> from monocal.metrics import metric
        >>> list(by_summary({name: metric(name) for name in ("ece", "auc", "mce")}).values())
        [['ece', 'mce'], ['auc']]
    """
    names: dict[Summary[Any], list[str]] = {}
    for name, metric in metrics.items():
        names.setdefault(metric.summary, []).append(name)
    return names


def values_of(metrics: Mapping[str, AnyMetric], forecast: Forecast) -> dict[str, Value]:
    """Returns every metric's value, with one state per distinct summary, one at a time in memory.

    Arguments:
        metrics: Metrics by the names that their values shall have.
        forecast: The rows.

    Example:
        >>> from monocal.metrics import metric
        >>> rows = Forecast.of([0, 1], [0.2, 0.8])
        >>> round(values_of({"error": metric("ece")}, rows)["error"].number, 6)
        0.2
    """
    values: dict[str, Value] = {}
    for summary, names in by_summary(metrics).items():
        state = summary.of_all(forecast)
        values.update({name: metrics[name].value(state) for name in names})
        del state  # or it would live on until the next one is complete
    return {name: values[name] for name in metrics}
