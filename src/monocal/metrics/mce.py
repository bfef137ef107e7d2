"""Maximum calibration error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.goals import minimize
from monocal.metrics.base import Value
from monocal.metrics.bins import BinnedMetric
from monocal.metrics.sums import Sums, cell_sums


@final
@dataclass(frozen=True)
class Mce(BinnedMetric):
    r"""Maximum calibration error: the largest :math:`|\bar y_k - \bar p_k|` over non-empty equal-width bins.

    A bin with a single row counts as much as one with a million, so on real logs this number is mostly noise;
    read it beside its noise floor.

    Arguments:
        bins: Number of bins, as in ECE.
        precision: "single" bins in float32.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(Mce(bins=2).of(Forecast.of([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9])).number, 6)
        0.25
    """

    name = "mce"
    goal = minimize
    limits = (0.0, 1.0)

    def _value(self, state: Sums) -> Value:
        cells = cell_sums(state)
        filled = cells.weight > 0.0
        if not filled.any():
            return Value.undefined("no rows")
        return Value(float(np.max(cells.gap[filled] / cells.weight[filled])))
