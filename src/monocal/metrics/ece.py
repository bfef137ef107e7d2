"""Expected calibration error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Value
from monocal.metrics.bins import BinnedMetric
from monocal.metrics.sums import Sums, cell_sums


@final
@dataclass(frozen=True)
class Ece(BinnedMetric):
    r"""Expected calibration error over M equal-width bins.

    .. math:: \frac{1}{n}\sum_k \Bigl|\sum_{i \in k} (p_i - y_i)\Bigr|

    No bin is divided by its size, so empty bins need no rule. A prediction of exactly 1 sits in a bin of its own
    behind the last one.

    Arguments:
        bins: M.
        precision: "single" bins in float32, for parity with float32 evaluators.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(Ece(bins=100).of(Forecast.of([1, 1, 0], [1.0, 0.995, 0.995])).number, 6)
        0.33
    """

    name = "ece"
    goal = minimize
    limits = (0.0, 1.0)

    def _value(self, state: Sums) -> Value:
        cells = cell_sums(state)
        weight = float(cells.weight.sum())
        return Value(float(cells.gap.sum()) / weight) if weight > 0.0 else Value.undefined("no rows")
