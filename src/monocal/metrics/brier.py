"""Brier score with its decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.goals import minimize
from monocal.metrics.base import Metric, Summary, Value
from monocal.metrics.bins import BinSums
from monocal.metrics.forecast import Forecast
from monocal.metrics.sums import Sums, SumSummary, Term, cell_sums, cell_terms


@final
@dataclass(frozen=True)
class SquareSums(SumSummary):
    """Cell sums over equal-width bins, plus the squares and products that a decomposition needs."""

    bins: int = 100

    def __post_init__(self) -> None:
        BinSums(self.bins)

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        p = forecast.probabilities
        squares = p * p
        return (
            *cell_terms(p, BinSums(self.bins).bin_of(p), self.bins + 1),
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

    def __post_init__(self) -> None:
        self._summary()

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
