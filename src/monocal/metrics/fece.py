"""Field-level expected calibration error, of one field and of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Value
from monocal.metrics.fields import FieldMetric
from monocal.metrics.sums import CellSums


@dataclass(frozen=True)
class _Fece(FieldMetric):
    """The mean absolute gap between predictions and labels of a field's values."""

    goal = minimize
    limits = (0.0, 1.0)

    @final
    def _error(self, cells: CellSums) -> Value:
        weight = float(cells.weight.sum())
        return Value(float(cells.gap.sum()) / weight) if weight > 0.0 else Value.undefined("no rows")


@final
@dataclass(frozen=True)
class Fece(_Fece):
    r"""Field-level expected calibration error of the first field given: as ECE, with the field's values as bins.

    .. math:: \frac{1}{n}\sum_v \Bigl|\sum_{i: f_i = v} (p_i - y_i)\Bigr|

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([0, 1, 1, 0], [0.2, 0.6, 0.9, 0.3], fields={"site": [0, 0, 1, 1]})
        >>> round(Fece().of(rows).number, 6)
        0.1
    """

    name = "fece"
    which = "first"


@final
@dataclass(frozen=True)
class Mfece(_Fece):
    """The unweighted mean of FECE over all fields given. The details hold each field's own value.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([0, 1], [0.2, 0.6], fields={"site": [0, 1], "app": [0, 0]})
        >>> value = Mfece().of(rows)
        >>> round(value.number, 6), {name: round(number, 6) for name, number in value.details.items()}
        (0.2, {'site': 0.3, 'app': 0.1})
    """

    name = "mfece"
    which = "all"
