"""Relative calibration error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Value
from monocal.metrics.bins import BinnedMetric
from monocal.metrics.relative import Normalise, check_relative_options, relative_error
from monocal.metrics.sums import Sums, cell_sums


@final
@dataclass(frozen=True)
class Rce(BinnedMetric):
    r"""Relative calibration error over equal-width bins: the row-weighted mean of :math:`|\bar y_k-\bar p_k|/\bar y_k`.

    Bins without positives are dropped from numerator and denominator; the details carry `dropped_row_share` and the
    `smoothed` variant, which drops nothing and divides by :math:`\max(\sum y, 1/2)`.

    Arguments:
        bins: Number of bins, as in ECE.
        precision: "single" bins in float32.
        normalise: "kept" divides by the rows of bins with positives, "all" by all rows.
        smoothing: Smallest divisor; above 0 the value itself is the smoothed variant.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> value = Rce(bins=2).of(Forecast.of([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9]))
        >>> round(value.number, 6), value.details["dropped_row_share"]
        (0.25, 0.5)
    """

    name = "rce"
    goal = minimize

    normalise: Normalise = "kept"
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_relative_options(self.normalise, self.smoothing)

    def _value(self, state: Sums) -> Value:
        return relative_error(cell_sums(state), self.normalise, self.smoothing, "bin")
