"""Cal-N: the typical over- or under-prediction ratio of equal-mass clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.goals import minimize
from monocal.core.spaces import Floats
from monocal.metrics.base import Value
from monocal.metrics.equal_mass import EqualMassMetric, SumRanges, equal_mass, sum_ranges
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
    `moved_row_share` of the rows (in the details) sit in a cluster next to their own. Positives and predictions of each
    cluster then lie in a known range, hence its factor does, too, and so the exact value is within `error_bound` (in
    the details) of the sketch; it is infinite where a cluster might have no positive label.

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
        number = _typical_ratio(predicted[kept] / positive[kept])
        if not state.exact:
            details["error_bound"] = _bound(number, sum_ranges(state, self.bins), sums.weight > 0.0)
        return Value(number, details=details)


def _typical_ratio(ratio: Floats) -> float:
    return _typical(_excess(ratio))


def _excess(ratio: Floats) -> Floats:
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(ratio >= 1.0, ratio, 1.0 / ratio) - 1.0


def _typical(excess: Floats) -> float:
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean(excess * excess)))


def _bound(number: float, ranges: SumRanges, used: NDArray[np.bool_]) -> float:
    """Returns how far the exact value may be from that of a sketch."""
    predicted, positive = ranges.predicted[:, used], ranges.positive[:, used]
    nothing = _ROUNDING * positive[1].sum()
    kept = positive[1] > nothing
    if not np.isfinite(number) or bool((positive[0, kept] <= nothing).any()):
        return np.inf
    low, high = predicted[0, kept] / positive[1, kept], predicted[1, kept] / positive[0, kept]
    ends = np.stack([_excess(low), _excess(high)])
    least = np.where((low <= 1.0) & (high >= 1.0), 0.0, ends.min(axis=0))
    return max(_typical(ends.max(axis=0)) - number, number - _typical(least), 0.0)
