"""Calibration over bins that hold equally many rows, ordered by prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.metrics.base import Metric, Summary, Value, check_positive_count, minimize
from monocal.metrics.calibration import SMOOTHED_POSITIVES
from monocal.metrics.order import OrderedCells, ScoreOrder
from monocal.metrics.sums import CellSums


@dataclass(frozen=True)
class EqualMassMetric(Metric[OrderedCells]):
    """A metric over bins that hold equally many rows, ordered by prediction; a subclass writes `_value`.

    Arguments:
        bins: Number of bins.
        cells: None for exact, or the number of grid cells of the sketch.
    """

    bins: int = 10
    cells: int | None = None

    @final
    def __post_init__(self) -> None:
        check_positive_count("bins", self.bins)
        self._summary()

    @final
    def _summary(self) -> Summary[OrderedCells]:
        return ScoreOrder(self.cells)


def equal_mass(state: OrderedCells, bins: int) -> tuple[CellSums, Floats]:
    """Cuts rows ordered by prediction into bins that hold the same number of rows.

    Whole-number weights are cut as `np.array_split` cuts repeated rows: the first bins hold one row more when the
    division leaves a remainder. Other weights are cut at exactly equal mass. Rows with equal predictions that fall on
    a cut share their labels evenly between both sides, so the result does not depend on the order of rows; without
    ties it is the plain sort-and-split.

    Arguments:
        state: Ordered cells.
        bins: How many bins.

    Returns:
        The sums per bin, and for each inner cut the weight of the cell it falls into (0 when it falls between cells).

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> from monocal.metrics.order import ScoreOrder
        >>> rows = Forecast.of([0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.5])
        >>> equal_mass(ScoreOrder().summarize(rows), 2)[0].weight.tolist()
        [3.0, 2.0]
    """
    mass = _running(state.weight)
    cuts = _cuts(state.weight, float(mass[-1]), bins)
    predicted = np.diff(np.interp(cuts, mass, _running(state.predicted)))
    positive = np.diff(np.interp(cuts, mass, _running(state.positive)))
    sums = CellSums(np.diff(cuts), predicted, positive)
    inner = cuts[1:-1]
    cell = np.clip(np.searchsorted(mass, inner, side="left") - 1, 0, max(state.weight.shape[0] - 1, 0))
    inside = (inner > mass[cell]) & (inner < mass[cell + 1])
    return sums, np.where(inside, state.weight[cell], 0.0)


class SumRanges(NamedTuple):
    """Between which numbers the sums of each bin lie, wherever the rows of a cell that a cut falls into are.

    Attributes:
        predicted: Least and most of the summed predictions, `(2, bins)`.
        positive: Least and most of the summed labels, `(2, bins)`.
    """

    predicted: Floats
    positive: Floats


def sum_ranges(state: OrderedCells, bins: int) -> SumRanges:
    """Returns what is known for certain about the bins of `equal_mass` from a sketch.

    Of a cell with weight m and y positives, a cut leaves mass a below it: at least y − (m − a) and at most min(y, a) of
    the positives, and no more than its share of the summed predictions, since rows below are those with the smaller
    ones. A prediction is at least the mean of the cell before and at most that of the cell behind.

    Arguments:
        state: Ordered cells.
        bins: How many bins.

    Example:
        One cell of four rows, two of them positive, cut in half.

        >>> state = OrderedCells(np.array([0]), np.array([4.0]), np.array([2.0]), False, np.array([1.0]))
        >>> sum_ranges(state, 2).positive.tolist()
        [[0.0, 0.0], [2.0, 2.0]]
    """
    filled = state.weight > 0.0
    weight, positive, predicted = (column[filled] for column in (state.weight, state.positive, state.predicted))
    mass, means = _running(weight), np.concatenate([[0.0], predicted / weight, [1.0]])
    cuts = _cuts(weight, float(mass[-1]), bins)
    cell = np.clip(np.searchsorted(mass, cuts, side="left") - 1, 0, weight.shape[0] - 1)
    below = np.clip(cuts - mass[cell], 0.0, weight[cell])
    above = weight[cell] - below
    most = predicted[cell] * below / weight[cell]
    least = np.maximum(below * means[cell], predicted[cell] - above * means[cell + 2])
    return SumRanges(
        _between(_running(predicted)[cell], np.minimum(least, most), most),
        _between(_running(positive)[cell], np.maximum(positive[cell] - above, 0.0), np.minimum(positive[cell], below)),
    )


def _between(before: Floats, least: Floats, most: Floats) -> Floats:
    """Least and most between neighbouring cuts, from what each has below it: whole cells, and of its own so much."""
    return np.stack([np.diff(before) + least[1:] - most[:-1], np.diff(before) + most[1:] - least[:-1]]).clip(0.0)


def _running(column: Floats) -> Floats:
    total = np.zeros(column.shape[0] + 1)
    np.cumsum(column, out=total[1:])
    return total


def _cuts(weight: Floats, total: float, bins: int) -> Floats:
    steps = np.arange(bins + 1)
    if np.array_equal(weight, np.floor(weight)):
        size, rest = divmod(total, bins)
        return np.asarray(steps * size + np.minimum(steps, rest), dtype=np.float64)
    return np.asarray(steps * (total / bins), dtype=np.float64)


@final
@dataclass(frozen=True)
class AdaptiveEce(EqualMassMetric):
    r"""ECE over bins that hold equally many rows, ordered by prediction.

    .. math:: \frac{1}{n}\sum_b \Bigl|\sum_{i\in b}(p_i-y_i)\Bigr|

    At small rates nearly all predictions share a few equal-width bins; equal-mass bins follow them. Rows with equal
    predictions on a cut are shared evenly by both sides, so row order does not matter. The bins need all rows: the
    exact state merges but grows with the rows. With `cells` memory is bounded; a cut may then fall into a cell of mass
    :math:`m_b`, which moves at most that much residual between two bins, so

    .. math:: |\text{sketch} - \text{exact}| \le \frac{2}{n}\sum_b m_b,

    and the details carry this as `error_bound`.

    Arguments:
        bins: Number of bins.
        cells: None for exact, or the number of grid cells of the sketch.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(AdaptiveEce(bins=2).of(Forecast.of([0, 0, 1, 1], [0.01, 0.02, 0.03, 0.04])).number, 6)
        0.49
    """

    name = "adaptive_ece"
    goal = minimize
    limits = (0.0, 1.0)

    bins: int = 15

    def _value(self, state: OrderedCells) -> Value:
        weight = float(state.weight.sum())
        if weight == 0.0:
            return Value.undefined("no rows")
        sums, torn = equal_mass(state, self.bins)
        details = {} if state.exact else {"error_bound": 2.0 * float(torn.sum()) / weight}
        return Value(float(sums.gap.sum()) / weight, details=details)


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
