"""Cal-N: the typical over- or under-prediction ratio of equal-mass clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.goals import minimize
from monocal.metrics.base import Value
from monocal.metrics.equal_mass import EqualMassMetric, equal_mass
from monocal.metrics.order import OrderedCells
from monocal.metrics.relative import SMOOTHED_POSITIVES

_ROUNDING = 1e-9


@final
@dataclass(frozen=True)
class CalN(EqualMassMetric):
    r"""The typical factor by which equal-mass clusters are over- or under-predicted, minus one.

    .. math:: \sqrt{\frac{1}{N}\sum_b \bigl(\max(r_b, 1/r_b) - 1\bigr)^2}, \qquad r_b = \frac{\sum_b p}{\sum_b y}

    Too much and too little by the same factor cost the same. Clusters without a positive label have no ratio and are
    skipped; the details carry `skipped_row_share` and the `smoothed` variant, which skips nothing and takes both sums
    as one half at least. A cluster with positives but predictions of exactly 0 makes the value infinite.

    Clusters need all rows: the exact state merges but grows with the rows. With `cells` memory is bounded, and at most
    `moved_row_share` of the rows (in the details) sit in a cluster next to their own.

    References:
        Deng et al. Calibrating user response predictions in online advertising. 2020.

    Arguments:
        bins: N, the number of clusters.
        cells: None for exact, or the number of grid cells of the sketch.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(CalN(bins=2).of(Forecast.of([0, 1, 0, 1], [0.2, 0.3, 0.9, 1.0])).number, 6)
        0.951315
    """

    name = "cal_n"
    goal = minimize

    def _value(self, state: OrderedCells) -> Value:
        if float(state.weight.sum()) == 0.0:
            return Value.undefined("no rows")
        sums, torn = equal_mass(state, self.bins)
        weight, predicted, positive = (column[sums.weight > 0.0] for column in sums)
        # a cut that rounding puts slightly into the next row must not turn "no positive" into a tiny one
        kept = positive > _ROUNDING * positive.sum()
        details = {
            "skipped_row_share": float(weight[~kept].sum() / weight.sum()),
            "smoothed": _typical_ratio(
                np.maximum(predicted, SMOOTHED_POSITIVES) / np.maximum(positive, SMOOTHED_POSITIVES)
            ),
        }
        if not state.exact:
            details["moved_row_share"] = float(torn.sum() / weight.sum())
        if not kept.any():
            return Value.undefined("no cluster has a positive label to divide by", details)
        return Value(_typical_ratio(predicted[kept] / positive[kept]), details=details)


def _typical_ratio(ratio: np.ndarray) -> float:
    with np.errstate(divide="ignore", over="ignore"):
        excess = np.where(ratio >= 1.0, ratio, 1.0 / ratio) - 1.0
        return float(np.sqrt(np.mean(excess * excess)))
