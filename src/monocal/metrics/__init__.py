"""How good is a forecast: numbers that add up over batches, with intervals and noise floors.

This export list is the registry: every metric class named here is known to `metric`, to `monocal.evaluate`, to the
command line and to the contract tests.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from monocal.core.errors import check_known
from monocal.metrics.base import AnyMetric, Metric, Summary, Value, values_of
from monocal.metrics.calibration import AdaptiveEce, Ece, Mce, Pcoc, Rce
from monocal.metrics.fields import Fece, Frce, Mfece, Mfrce
from monocal.metrics.forecast import Forecast
from monocal.metrics.proper import Brier, LogLoss, NormalisedEntropy
from monocal.metrics.ranking import Auc, Gauc, Ndcg
from monocal.metrics.resample import Interval, bootstrap, centred_interval, noise_floor

METRICS: dict[str, type[AnyMetric]] = {
    kind.name: kind
    for kind in (
        Auc,
        Gauc,
        Ndcg,
        LogLoss,
        NormalisedEntropy,
        Brier,
        Pcoc,
        Ece,
        AdaptiveEce,
        Rce,
        Mce,
        Fece,
        Mfece,
        Frce,
        Mfrce,
    )
}
"""Every metric by name, in the order of reports."""


def metric(name: str, **options: Any) -> AnyMetric:
    """Returns a metric by name with its options, or says which name or option was meant.

    Arguments:
        name: One of `METRICS`.
        options: Arguments of the metric's class, such as `bins`.

    Example:
        >>> metric("ece", bins=5)
        Ece(bins=5)
        >>> metric("ecce")
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: metric: got 'ecce'; expected one of auc, gauc, ... Hint: did you mean 'ece'?
    """
    check_known("metric", name, METRICS)
    kind = METRICS[name]
    allowed = [option.name for option in dataclasses.fields(kind)]
    for option in options:
        check_known(f"option of {name}", option, allowed)
    return kind(**options)


__all__ = [
    "METRICS",
    "metric",
    "Forecast",
    "Metric",
    "AnyMetric",
    "Summary",
    "Value",
    "values_of",
    "Interval",
    "bootstrap",
    "centred_interval",
    "noise_floor",
    "Auc",
    "Gauc",
    "Ndcg",
    "LogLoss",
    "NormalisedEntropy",
    "Brier",
    "Pcoc",
    "Ece",
    "AdaptiveEce",
    "Rce",
    "Mce",
    "Fece",
    "Mfece",
    "Frce",
    "Mfrce",
]
