"""Expected calibration error over equal-mass bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Value
from monocal.metrics.equal_mass import EqualMassMetric, equal_mass
from monocal.metrics.order import OrderedCells


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
