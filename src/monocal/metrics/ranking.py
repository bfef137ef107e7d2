"""How well a forecast ranks: AUC over all rows and inside groups, and NDCG of lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from monocal.core.scores import Floats
from monocal.metrics.base import Blocks, Metric, Replay, Rows, Summary, Value, check_positive_count, maximize
from monocal.metrics.forecast import Forecast, IdColumn
from monocal.metrics.order import GroupedCells, GroupOrder, OrderedCells, ScoreOrder, add_runs, group_ranks, run_starts
from monocal.metrics.sums import Sums


@final
@dataclass(frozen=True)
class Auc(Metric[OrderedCells]):
    r"""The chance that a positive row is ranked above a negative one, ties counting one half.

    Exact by default, which needs every distinct prediction: the state merges exactly but grows with the rows.
    With `cells` the logits are rounded to a fixed grid and memory is bounded. Only pairs inside a cell can then be
    counted wrongly, each by at most one half, so with :math:`P_c, N_c` positives and negatives in cell c

    .. math:: |\text{sketch} - \text{exact}| \le \frac{\sum_c P_c N_c}{2 P N},

    and this bound is in the details as `error_bound`. Undefined with one class.

    Arguments:
        cells: None for exact, or the number of grid cells, such as 4096.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> Auc().of(Forecast.of([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8])).number
        0.875
    """

    name = "auc"
    goal = maximize
    has_floor = False
    limits = (0.0, 1.0)

    cells: int | None = None

    def _summary(self) -> Summary[OrderedCells]:
        return ScoreOrder(self.cells)

    def _value(self, state: OrderedCells) -> Value:
        positive, negative = state.positive, state.weight - state.positive
        n_positive, n_negative = float(positive.sum()), float(negative.sum())
        if n_positive + n_negative == 0.0:
            return Value.undefined("no rows")
        if n_positive == 0.0 or n_negative == 0.0:
            return Value.undefined(f"all labels are {int(n_negative == 0.0)}, so there is no pair to rank")
        below = np.cumsum(negative)
        below -= 0.5 * negative
        pairs = n_positive * n_negative
        tied = 0.0 if state.exact else 0.5 * float(np.dot(positive, negative)) / pairs
        return Value(float(np.dot(positive, below)) / pairs, details={} if state.exact else {"error_bound": tied})


@final
@dataclass(frozen=True)
class Gauc(Metric[GroupedCells]):
    r"""AUC inside each group, averaged with the groups' rows as weights.

    Groups whose rows all have one label have no AUC; they leave the numerator and the denominator, and the details
    carry their `skipped_row_share`. The state keeps the distinct predictions of every group and grows with the rows.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([0, 1, 1, 0, 1], [0.2, 0.6, 0.9, 0.95, 0.3], groups=[0, 0, 1, 1, 2])
        >>> value = Gauc().of(rows)
        >>> value.number, round(value.details["skipped_row_share"], 6)
        (0.5, 0.2)
    """

    name = "gauc"
    goal = maximize
    has_floor = False
    limits = (0.0, 1.0)

    def _summary(self) -> Summary[GroupedCells]:
        return GroupOrder()

    def _value(self, state: GroupedCells | Sums) -> Value:
        if isinstance(state, GroupedCells):
            if state.groups is None:
                return Value.undefined("no groups were given")
            state = group_ranks(state)
        weight, positive = state["weight"], state["positive"]
        n_rows = float(weight.sum())
        if n_rows == 0.0:
            return Value.undefined("no rows")
        pairs = positive * (weight - positive)
        kept = pairs > 0.0
        weight, positive, pairs = weight[kept], positive[kept], pairs[kept]
        details = {"skipped_row_share": 1.0 - float(weight.sum()) / n_rows}
        if not kept.any():
            return Value.undefined("no group has both labels", details)
        areas = (state["ranked"][kept] * weight - 0.5 * positive**2) / pairs
        return Value(float(np.dot(weight, areas)) / float(weight.sum()), details=details)


@final
@dataclass(frozen=True, eq=False)
class ListGains:
    """Per list: its discounted gain, its positive rows, and how often the list counts."""

    gain: Floats
    positive: Floats
    times: Floats


@final
@dataclass(frozen=True)
class Ndcg(Metric[GroupedCells]):
    r"""Discounted gain of the first rows of each list over the best possible one, averaged over lists.

    .. math:: \mathrm{NDCG@}k = \frac{\sum_{i \le k} y_{(i)} / \log_2(1 + i)}{\sum_{i \le \min(k, P)} 1 / \log_2(1 + i)}

    with :math:`y_{(i)}` the label of the list's i-th row by falling prediction and P its positive rows. Rows of equal
    prediction share the mean of their places' discounts, so that row order does not matter. Lists without a positive
    row have no value; they are left out, and the details carry their `skipped_list_share`. Every other list counts
    once. The state keeps the distinct predictions of every list and grows with the rows.

    Intervals redraw whole lists, each with the value it has. Noise floors redraw labels at unchanged places.

    References:
        Järvelin, Kekäläinen. Cumulated gain-based evaluation of IR techniques. 2002.

    Arguments:
        top: k, how many places of a list count.

    Example:
        The list's positive rows stand at places 1 and 3: (1 + 1/2) / (1 + 1/log₂ 3).

        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([1, 0, 1, 0], [0.9, 0.6, 0.3, 0.2], groups=[0, 0, 0, 1])
        >>> value = Ndcg().of(rows)
        >>> round(value.number, 6), value.details["skipped_list_share"]
        (0.919721, 0.5)
    """

    name = "ndcg"
    goal = maximize
    has_floor = False
    limits = (0.0, 1.0)

    top: int = 10

    def _summary(self) -> Summary[GroupedCells]:
        return ListOrder(top=self.top)

    def _value(self, state: GroupedCells | ListGains) -> Value:
        if isinstance(state, GroupedCells):
            if state.groups is None:
                return Value.undefined("no groups were given")
            starts = run_starts(state.groups)
            gain = add_runs(state.positive * _mean_discounts(state, self.top), starts)
            state = ListGains(gain, add_runs(state.positive, starts), np.ones(len(starts)))
        n_lists = float(state.times.sum())
        if n_lists == 0.0:
            return Value.undefined("no rows")
        kept = (state.positive > 0.0) & (state.times > 0.0)
        times = state.times[kept]
        details = {"skipped_list_share": 1.0 - float(times.sum()) / n_lists}
        if not kept.any():
            return Value.undefined("no list has a positive row", details)
        shares = state.gain[kept] / _total_discount(state.positive[kept], self.top)
        return Value(float(np.dot(times, shares)) / float(times.sum()), details=details)


@final
@dataclass(frozen=True)
class ListOrder(GroupOrder):
    """Weights and labels in the order of the predictions, list by list.

    Arguments:
        top: How many places of a list count in replicates.
    """

    top: int = 10

    def __post_init__(self) -> None:
        check_positive_count("top", self.top)

    def replay(self, forecast: Forecast) -> Replay[Any]:
        return super().replay(forecast) if forecast.groups is None else _ListReplay(forecast, forecast.groups, self.top)


@final
class _ListReplay(Replay[ListGains]):
    """Replicates with every row's place in its list kept; a list that is drawn twice counts twice as it is."""

    def __init__(self, forecast: Forecast, groups: IdColumn, top: int) -> None:
        self._labels = forecast.labels
        self._lists = np.unique(groups, return_inverse=True)[1]
        self._weights = np.ones(forecast.n_rows) if forecast.weights is None else forecast.weights
        self._n_lists = int(self._lists.max()) + 1 if forecast.n_rows else 0
        self._rows_of_list = np.bincount(self._lists, self._weights, self._n_lists)
        order = np.lexsort((forecast.probabilities, self._lists))
        lists, p = self._lists[order], forecast.probabilities[order]
        starts = run_starts(lists, p)
        weight = add_runs(self._weights[order], starts)
        cells = GroupedCells(lists[starts], p[starts], weight, weight)
        self._discounts = np.empty(forecast.n_rows)
        self._discounts[order] = np.repeat(_mean_discounts(cells, top), np.diff(starts, append=len(order)))

    def relabelled(self, positive_rows: Rows) -> ListGains:
        return self._gains(positive_rows, (self._rows_of_list > 0.0).astype(np.float64))

    def reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[ListGains]:
        positive_rows = np.flatnonzero(self._labels)
        shown = np.where(self._rows_of_list > 0.0, self._rows_of_list, 1.0)
        for count in counts:
            drawn = np.bincount(self._lists, self._weights * count[blocks], self._n_lists)
            yield self._gains(positive_rows, drawn / shown)

    def _gains(self, positive_rows: Rows, times: Floats) -> ListGains:
        lists, weights = self._lists[positive_rows], self._weights[positive_rows]
        gain = np.bincount(lists, weights * self._discounts[positive_rows], self._n_lists).astype(np.float64)
        return ListGains(gain, np.bincount(lists, weights, self._n_lists).astype(np.float64), times)


def _mean_discounts(cells: GroupedCells, top: int) -> Floats:
    """Returns the mean discount of the places that each cell's rows take in their list."""
    assert cells.groups is not None
    if cells.weight.size == 0:
        return np.zeros(0)
    starts = run_starts(cells.groups)
    until = np.cumsum(cells.weight)
    ends = np.append(starts[1:], len(until)) - 1
    above = np.repeat(until[ends], np.diff(starts, append=len(until))) - until
    inside = np.where(cells.weight > 0.0, cells.weight, 1.0)
    discounts: Floats = (_total_discount(above + cells.weight, top) - _total_discount(above, top)) / inside
    return discounts


def _total_discount(n_places: Floats, top: int) -> Floats:
    """Returns the summed discounts of the first places, linear between whole numbers."""
    sums = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, top + 2)))])
    total: Floats = np.interp(n_places, np.arange(top + 1), sums)
    return total
