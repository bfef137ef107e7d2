"""Cutting ordered rows into bins of equal mass, and what metrics over them have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from monocal.core.spaces import Floats
from monocal.metrics.base import Metric, Summary, check_positive_count
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
