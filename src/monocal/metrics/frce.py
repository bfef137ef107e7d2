"""Field-level relative calibration error, of one field and of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Metric, Summary, Value
from monocal.metrics.fece import mean_over_fields
from monocal.metrics.fields import NO_FIELD, FieldSums, fields_of
from monocal.metrics.relative import Normalise, check_relative_options, relative_error
from monocal.metrics.sums import Sums


@final
@dataclass(frozen=True)
class Frce(Metric[Sums]):
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
    goal = minimize

    normalise: Normalise = "kept"
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_relative_options(self.normalise, self.smoothing)

    def _summary(self) -> Summary[Sums]:
        return FieldSums("first")

    def _value(self, state: Sums) -> Value:
        for _, cells in fields_of(state):
            return relative_error(cells, self.normalise, self.smoothing, "value of the field")
        return Value.undefined(NO_FIELD)


@final
@dataclass(frozen=True)
class Mfrce(Metric[Sums]):
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
    goal = minimize

    normalise: Normalise = "kept"
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_relative_options(self.normalise, self.smoothing)

    def _summary(self) -> Summary[Sums]:
        return FieldSums("all")

    def _value(self, state: Sums) -> Value:
        values = {
            name: relative_error(cells, self.normalise, self.smoothing, "value") for name, cells in fields_of(state)
        }
        mean = mean_over_fields(values)
        parts = {f"{name}/{key}": number for name, value in values.items() for key, number in value.details.items()}
        return Value(mean.number, mean.reason, {**mean.details, **parts})
