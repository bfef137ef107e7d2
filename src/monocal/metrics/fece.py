"""Field-level expected calibration error, of one field and of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from monocal.core.goals import minimize
from monocal.metrics.base import Metric, Summary, Value
from monocal.metrics.fields import NO_FIELD, FieldSums, fields_of
from monocal.metrics.sums import CellSums, Sums


def field_error(cells: CellSums) -> Value:
    r"""Returns :math:`\frac{1}{n}\sum_v |\sum_{i: f_i=v}(p_i-y_i)|`."""
    weight = float(cells.weight.sum())
    return Value(float(cells.gap.sum()) / weight) if weight > 0.0 else Value.undefined("no rows")


@final
@dataclass(frozen=True)
class Fece(Metric[Sums]):
    r"""Field-level expected calibration error of the first field given: as ECE, with the field's values as bins.

    .. math:: \frac{1}{n}\sum_v \Bigl|\sum_{i: f_i = v} (p_i - y_i)\Bigr|

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([0, 1, 1, 0], [0.2, 0.6, 0.9, 0.3], fields={"site": [0, 0, 1, 1]})
        >>> round(Fece().of(rows).number, 6)
        0.1
    """

    name = "fece"
    goal = minimize
    limits = (0.0, 1.0)

    def _summary(self) -> Summary[Sums]:
        return FieldSums("first")

    def _value(self, state: Sums) -> Value:
        for _, cells in fields_of(state):
            return field_error(cells)
        return Value.undefined(NO_FIELD)


@final
@dataclass(frozen=True)
class Mfece(Metric[Sums]):
    """The unweighted mean of FECE over all fields given. The details hold each field's own value.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([0, 1], [0.2, 0.6], fields={"site": [0, 1], "app": [0, 0]})
        >>> value = Mfece().of(rows)
        >>> round(value.number, 6), {name: round(number, 6) for name, number in value.details.items()}
        (0.2, {'site': 0.3, 'app': 0.1})
    """

    name = "mfece"
    goal = minimize
    limits = (0.0, 1.0)

    def _summary(self) -> Summary[Sums]:
        return FieldSums("all")

    def _value(self, state: Sums) -> Value:
        values = {name: field_error(cells) for name, cells in fields_of(state)}
        return mean_over_fields(values)


def mean_over_fields(values: dict[str, Value]) -> Value:
    """Returns the mean of the fields' values; undefined as soon as one of them is, and the reason names it."""
    if not values:
        return Value.undefined(NO_FIELD)
    details = {name: value.number for name, value in values.items()}
    for name, value in values.items():
        if value.reason:
            return Value.undefined(value.reason if value.reason == "no rows" else f"{name}: {value.reason}", details)
    return Value(sum(details.values()) / len(details), details=details)
