"""Area under the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.goals import maximize
from monocal.metrics.base import Metric, Summary, Value
from monocal.metrics.order import OrderedCells, ScoreOrder


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

    def __post_init__(self) -> None:
        self._summary()

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
