"""Calibration by field value: sums per value of each field, and the metrics over them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from monocal.metrics.base import Metric, Summary, Value, minimize
from monocal.metrics.calibration import mean_error, relative_error
from monocal.metrics.forecast import Forecast
from monocal.metrics.sums import CellSums, Sums, SumSummary, Term, cell_sums, cell_terms

Which = Literal["first", "all"]


@final
@dataclass(frozen=True)
class FieldSums(SumSummary):
    """Cell sums whose cells are the values of a field, for the first field given or for all of them.

    The state is dense in the ids, so merging batches needs the same ids for the same values; a batch that brings larger
    ids is welcome.

    Arguments:
        which: "first" or "all".

    Example:
        >>> rows = Forecast.of([0, 1], [0.2, 0.7], fields={"site": [0, 2], "app": [1, 1]})
        >>> [name for name, _ in fields_of(FieldSums("all").summarize(rows))]
        ['site', 'app']
    """

    which: Which = "all"

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        names = list(forecast.fields)[: 1 if self.which == "first" else None]
        terms: list[Term] = []
        for name in names:
            ids = forecast.fields[name]
            n_values = int(ids.max()) + 1 if ids.size else 0
            terms += cell_terms(forecast.probabilities, ids, n_values, prefix=f"{name}/")
        return tuple(terms)


def fields_of(state: Sums) -> Iterator[tuple[str, CellSums]]:
    """Yields each field's name and its sums per value."""
    for key in state.arrays:
        name, _, part = key.rpartition("/")
        if part == "weight":
            yield name, cell_sums(state, f"{name}/")


@dataclass(frozen=True)
class FieldMetric(Metric[Sums]):
    """A metric of the first field given, or its mean over all fields; a subclass writes `_error` of one field.

    The details of a mean hold each field's own value and, as `<field>/<name>`, the details of each. It is undefined as
    soon as one field's value is, and the reason names it.
    """

    which: ClassVar[Which]

    @final
    def _summary(self) -> Summary[Sums]:
        return FieldSums(self.which)

    @final
    def _value(self, state: Sums) -> Value:
        values = {name: self._error(cells) for name, cells in fields_of(state)}
        if not values:
            return Value.undefined("no field was given")
        if self.which == "first":
            return next(iter(values.values()))
        details = {name: value.number for name, value in values.items()}
        mean = sum(details.values()) / len(details)
        details |= {f"{name}/{key}": part for name, value in values.items() for key, part in value.details.items()}
        for name, value in values.items():
            if value.reason:
                reason = value.reason if value.reason == "no rows" else f"{name}: {value.reason}"
                return Value.undefined(reason, details)
        return Value(mean, details=details)

    @abstractmethod
    def _error(self, cells: CellSums) -> Value: ...


@dataclass(frozen=True)
class _Fece(FieldMetric):
    """The mean absolute gap between predictions and labels of a field's values."""

    goal = minimize
    limits = (0.0, 1.0)

    @final
    def _error(self, cells: CellSums) -> Value:
        return mean_error(cells)


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


@dataclass(frozen=True)
class _Frce(FieldMetric):
    """The mean relative gap between predictions and labels of a field's values."""

    goal = minimize

    @final
    def _error(self, cells: CellSums) -> Value:
        what = "value of the field" if self.which == "first" else "value"
        return relative_error(cells, what)


@final
@dataclass(frozen=True)
class Frce(_Frce):
    r"""Field-level relative calibration error of the first field given.

    .. math:: \frac{\sum_v n_v\, |\sum_{v}(p-y)| / \sum_{v} y}{\sum_v n_v}

    Both sums run over values v with a positive label. Values without one are dropped, which forgives over-prediction
    there; the details carry `dropped_row_share` and the `smoothed` variant, which drops nothing and divides by
    :math:`\max(\sum y, 1/2)`.

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

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([1, 1], [0.8, 0.6], fields={"site": [0, 1], "app": [0, 0]})
        >>> round(Mfrce().of(rows).number, 6)
        0.3
    """

    name = "mfrce"
    which = "all"
