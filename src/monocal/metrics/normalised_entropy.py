"""Normalised entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Metric, Summary, Value
from monocal.metrics.sums import Sums
from monocal.metrics.totals import LogTotals


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
