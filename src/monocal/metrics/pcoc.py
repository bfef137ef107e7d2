"""Predicted clicks over observed clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import toward
from monocal.metrics.base import Metric, Summary, Value
from monocal.metrics.sums import Sums
from monocal.metrics.totals import Totals


@final
@dataclass(frozen=True)
class Pcoc(Metric[Sums]):
    r"""Predicted clicks over clicks: the global bias as a ratio.

    .. math:: \frac{\sum_i p_i}{\sum_i y_i}

    1 is ideal, 1.1 means ten percent too many clicks were predicted. Undefined without a positive label.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(Pcoc().of(Forecast.of([0, 1], [0.3, 0.8])).number, 6)
        1.1
    """

    name = "pcoc"
    goal = toward(1.0)

    def _summary(self) -> Summary[Sums]:
        return Totals()

    def _value(self, state: Sums) -> Value:
        if state.total("weight") == 0.0:
            return Value.undefined("no rows")
        if state.total("positive") == 0.0:
            return Value.undefined("no positive label to divide by")
        return Value(state.total("predicted") / state.total("positive"))
