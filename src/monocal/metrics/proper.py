"""Proper scores: log-loss, normalised entropy, and the Brier score with its decomposition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.scores import log_losses, logit
from monocal.metrics.base import Metric, Summary, Value, check_positive_count, minimize
from monocal.metrics.calibration import bin_of
from monocal.metrics.forecast import Forecast
from monocal.metrics.sums import Sums, SumSummary, Term, cell_sums, cell_terms


@final
@dataclass(frozen=True)
class LogTotals(SumSummary):
    r"""Row count, positives, and the summed negative log-likelihood; p is clipped to :math:`[10^{-7}, 1-10^{-7}]`."""

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        logits = logit(forecast.probabilities)
        return (
            Term("weight", 1.0, 0.0),
            Term("positive", 0.0, 1.0),
            Term("loss", log_losses(logits, 0.0), -logits),
        )


@final
@dataclass(frozen=True)
class LogLoss(Metric[Sums]):
    r"""The mean negative log-likelihood.

    .. math:: -\frac{1}{n}\sum_i y_i \ln p_i + (1-y_i)\ln(1-p_i)

    Predictions are clipped to :math:`[10^{-7}, 1-10^{-7}]`, so a single confident error costs 16.1 at most and the
    value is finite for every forecast. It is a proper score: on average nothing beats the true probabilities.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(LogLoss().of(Forecast.of([0, 1], [0.1, 0.8])).number, 6)
        0.164252
    """

    name = "log_loss"
    goal = minimize
    has_floor = False

    def _summary(self) -> Summary[Sums]:
        return LogTotals()

    def _value(self, state: Sums) -> Value:
        if state.total("weight") == 0.0:
            return Value.undefined("no rows")
        return Value(state.total("loss") / state.total("weight"))


@final
@dataclass(frozen=True)
class NormalisedEntropy(Metric[Sums]):
    r"""Log-loss divided by the log-loss of always predicting the observed rate :math:`\bar y`.

    .. math:: \frac{\text{log-loss}}{-\bar y \ln \bar y - (1-\bar y)\ln(1-\bar y)}

    1 means no better than a constant; the division makes logs with different base rates comparable. With one class
    only the denominator is zero and the value undefined.

    References:
        He et al. Practical lessons from predicting clicks on ads at Facebook. 2014.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(NormalisedEntropy().of(Forecast.of([0, 1, 0, 0], [0.25, 0.25, 0.25, 0.25])).number, 6)
        1.0
    """

    name = "ne"
    goal = minimize
    has_floor = False

    def _summary(self) -> Summary[Sums]:
        return LogTotals()

    def _value(self, state: Sums) -> Value:
        weight, positive = state.total("weight"), state.total("positive")
        if weight == 0.0:
            return Value.undefined("no rows")
        rate = positive / weight
        if positive == 0.0 or positive == weight:
            return Value.undefined(f"all labels are {int(rate > 0.5)}, so a constant forecast has entropy 0")
        entropy = -rate * math.log(rate) - (1.0 - rate) * math.log1p(-rate)
        return Value(state.total("loss") / weight / entropy)


@final
@dataclass(frozen=True)
class SquareSums(SumSummary):
    """Cell sums over equal-width bins, plus the squares and products that a decomposition needs."""

    bins: int = 100

    def __post_init__(self) -> None:
        check_positive_count("bins", self.bins)

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        p = forecast.probabilities
        squares = p * p
        return (
            *cell_terms(p, bin_of(p, self.bins), self.bins + 1),
            Term("squared_error", squares, 1.0 - 2.0 * p),
            Term("squared_prediction", squares, 0.0),
            Term("prediction_of_positives", 0.0, p),
        )


@final
@dataclass(frozen=True)
class Brier(Metric[Sums]):
    r"""The mean squared error of the probabilities, split into what calibration and what sorting contribute.

    .. math:: \frac{1}{n}\sum_i (p_i-y_i)^2 = \text{REL} - \text{RES} + \text{UNC} + \text{WBV} - \text{WBC}

    With :math:`\bar p_k, \bar y_k` the means in bin k, and all means weighted by rows, the details hold `reliability`
    :math:`(\bar p_k-\bar y_k)^2`, `resolution` :math:`(\bar y_k-\bar y)^2`, `uncertainty` :math:`\bar y(1-\bar y)`,
    `within_bin_variance` :math:`(p-\bar p_k)^2` and `within_bin_covariance` :math:`2(y-\bar y_k)(p-\bar p_k)`. The
    identity is exact for any number of bins; the last two vanish when p is constant inside bins.

    Arguments:
        bins: Equal-width bins of the decomposition; the score itself does not depend on them.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> value = Brier(bins=2).of(Forecast.of([0, 0, 1, 1], [0.25, 0.25, 0.75, 0.75]))
        >>> value.number, value.details["reliability"], value.details["resolution"], value.details["uncertainty"]
        (0.0625, 0.0625, 0.25, 0.25)
    """

    name = "brier"
    goal = minimize
    has_floor = False
    limits = (0.0, 1.0)

    bins: int = 100

    def _summary(self) -> Summary[Sums]:
        return SquareSums(self.bins)

    def _value(self, state: Sums) -> Value:
        cells = cell_sums(state)
        n = float(cells.weight.sum())
        if n == 0.0:
            return Value.undefined("no rows")
        filled = cells.weight > 0.0
        weight, predicted, positive = (column[filled] for column in cells)
        rate = float(positive.sum()) / n
        mean_p, mean_y = predicted / weight, positive / weight
        return Value(
            state.total("squared_error") / n,
            details={
                "reliability": float(np.dot(weight, (mean_p - mean_y) ** 2)) / n,
                "resolution": float(np.dot(weight, (mean_y - rate) ** 2)) / n,
                "uncertainty": rate * (1.0 - rate),
                "within_bin_variance": (state.total("squared_prediction") - float(np.dot(predicted, mean_p))) / n,
                "within_bin_covariance": 2.0
                * (state.total("prediction_of_positives") - float(np.dot(positive, mean_p)))
                / n,
            },
        )
