"""Field-level relative calibration error, of one field and of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Value
from monocal.metrics.fields import FieldMetric
from monocal.metrics.relative import Normalise, check_relative_options, relative_error
from monocal.metrics.sums import CellSums


@dataclass(frozen=True)
class _Frce(FieldMetric):
    """The mean relative gap between predictions and labels of a field's values."""

    goal = minimize

    normalise: Normalise = "kept"
    smoothing: float = 0.0

    @final
    def __post_init__(self) -> None:
        check_relative_options(self.normalise, self.smoothing)

    @final
    def _error(self, cells: CellSums) -> Value:
        what = "value of the field" if self.which == "first" else "value"
        return relative_error(cells, self.normalise, self.smoothing, what)


@final
@dataclass(frozen=True)
class Frce(_Frce):
    r"""Field-level relative calibration error of the first field given.

    .. math:: \frac{\sum_v n_v\, |\sum_{v}(p-y)| / \sum_{v} y}{\sum_v n_v}

    Both sums run over values v with a positive label. Values without one are dropped, which forgives over-prediction
    there; the details carry `dropped_row_share` and the `smoothed` variant, which drops nothing and divides by
    :math:`\max(\sum y, 1/2)`.

    Arguments:
        normalise: "kept" divides by the rows of kept values, "all" by all rows.
        smoothing: Smallest divisor; above 0 the value itself is the smoothed variant.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([0, 1, 1, 0, 0], [0.2, 0.6, 0.9, 0.3, 0.3], fields={"site": [0, 0, 1, 1, 2]})
        >>> value = Frce().of(rows)
        >>> round(value.number, 6), value.details["dropped_row_share"], round(value.details["smoothed"], 6)
        (0.2, 0.2, 0.28)
    """

    name = "frce"
    which = "first"


@final
@dataclass(frozen=True)
class Mfrce(_Frce):
    """The unweighted mean of FRCE over all fields given.

    The details hold each field's own value, `<field>/dropped_row_share` and `<field>/smoothed`.

    Arguments:
        normalise: As in FRCE.
        smoothing: As in FRCE.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([1, 1], [0.8, 0.6], fields={"site": [0, 1], "app": [0, 0]})
        >>> round(Mfrce().of(rows).number, 6)
        0.3
    """

    name = "mfrce"
    which = "all"
