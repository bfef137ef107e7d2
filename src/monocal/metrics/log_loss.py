"""Log-loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Metric, Summary, Value
from monocal.metrics.sums import Sums
from monocal.metrics.totals import LogTotals


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
