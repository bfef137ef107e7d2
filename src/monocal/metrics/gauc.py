"""AUC inside groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.goals import maximize
from monocal.metrics.base import Metric, Summary, Value
from monocal.metrics.group_order import GroupedCells, GroupOrder, GroupRanks, group_ranks


@final
@dataclass(frozen=True)
class Gauc(Metric[GroupedCells | GroupRanks]):
    r"""AUC inside each group, averaged with the groups' rows as weights.

    Groups whose rows all have one label have no AUC; they leave the numerator and the denominator, and the details
    carry their `skipped_row_share`. The exact state keeps the distinct predictions of every group and so grows with
    the rows. With `cells` it holds at most that many entries per group; only pairs of a group inside one cell can be
    counted wrongly, each by one half, and the details carry the resulting `error_bound`.

    Arguments:
        cells: None for exact, or the number of grid cells of the sketch.

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

    cells: int | None = None

    def __post_init__(self) -> None:
        self._summary()

    def _summary(self) -> Summary[GroupedCells | GroupRanks]:
        return GroupOrder(self.cells)

    def _value(self, state: GroupedCells | GroupRanks) -> Value:
        tied = None
        if isinstance(state, GroupedCells):
            if state.groups is None:
                return Value.undefined("no groups were given")
            state, tied = group_ranks(state)
        n_rows = float(state.weight.sum())
        if n_rows == 0.0:
            return Value.undefined("no rows")
        pairs = state.positive * (state.weight - state.positive)
        kept = pairs > 0.0
        weight = state.weight[kept]
        details = {"skipped_row_share": 1.0 - float(weight.sum()) / n_rows}
        if not kept.any():
            return Value.undefined("no group has both labels", details)
        areas = (state.ranked[kept] * weight - 0.5 * state.positive[kept] ** 2) / pairs[kept]
        if self.cells is not None and tied is not None:
            details["error_bound"] = float(np.dot(weight, 0.5 * tied[kept] / pairs[kept])) / float(weight.sum())
        return Value(float(np.dot(weight, areas)) / float(weight.sum()), details=details)
