"""How good is a forecast: numbers that add up over batches, with intervals and noise floors.

This export list is the registry: every metric class named here is known to `metric`, to `monocal.evaluate`, to the
command line and to the contract tests.
"""

from __future__ import annotations

from typing import Any

from monocal.metrics.adaptive_ece import AdaptiveEce
from monocal.metrics.auc import Auc
from monocal.metrics.base import AnyMetric, Metric, Summary, Value
from monocal.metrics.brier import Brier
from monocal.metrics.cal_n import CalN
from monocal.metrics.ece import Ece
from monocal.metrics.fece import Fece, Mfece
from monocal.metrics.floors import noise_floor
from monocal.metrics.forecast import Forecast
from monocal.metrics.frce import Frce, Mfrce
from monocal.metrics.gauc import Gauc
from monocal.metrics.intervals import Interval, bootstrap, centred_interval
from monocal.metrics.log_loss import LogLoss
from monocal.metrics.mce import Mce
from monocal.metrics.mvce import Mvce, view_errors
from monocal.metrics.ndcg import Ndcg
from monocal.metrics.normalised_entropy import NormalisedEntropy
from monocal.metrics.pcoc import Pcoc
from monocal.metrics.rce import Rce
from monocal.metrics.registry import find_metric
from monocal.metrics.shared import values_of
from monocal.metrics.smooth_ece import SmoothEce

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
        CalN,
        Mvce,
        SmoothEce,
    )
}
"""Every metric by name, in the order of reports."""


def metric(name: str, **options: Any) -> AnyMetric:
    """Returns a metric by name, with its options.

    Arguments:
        name: One of `METRICS`.
        options: Arguments of the metric's class, such as `bins`.

    Example:
        >>> metric("ece", bins=5)
        Ece(bins=5, precision='double')
        >>> metric("ecce")
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: metric: got 'ecce'; expected one of auc, gauc, ... Hint: did you mean 'ece'?
    """
    return find_metric(METRICS, name, options)


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
    "CalN",
    "Mvce",
    "view_errors",
    "SmoothEce",
]
