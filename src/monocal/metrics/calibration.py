"""Calibration of all rows: the global ratio, and errors over bins of the prediction, equal in width or in rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.scores import Floats
from monocal.metrics.base import Metric, Summary, Value, check_positive_count, minimize, toward
from monocal.metrics.forecast import Forecast, IdColumn
from monocal.metrics.order import OrderedCells, ScoreOrder
from monocal.metrics.sums import CellSums, Sums, SumSummary, Term, cell_sums, cell_terms


def bin_of(probabilities: Floats, bins: int) -> IdColumn:
    """Returns the equal-width bin of each prediction, 0 … M, computed in double precision."""
    return (probabilities * bins).astype(np.int32)


@final
@dataclass(frozen=True)
class BinSums(SumSummary):
    r"""Cell sums over bins :math:`[k/M, (k+1)/M)`; a prediction of exactly 1 has a bin of its own.

    Arguments:
        bins: M, the number of bins below 1.

    Example:
        >>> state = BinSums(100).summarize(Forecast.of([1, 1, 0], [1.0, 0.995, 0.995]))
        >>> np.flatnonzero(state["weight"]).tolist()
        [99, 100]
    """

    bins: int = 100

    def __post_init__(self) -> None:
        check_positive_count("bins", self.bins)

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        return cell_terms(forecast.probabilities, bin_of(forecast.probabilities, self.bins), self.bins + 1)


@dataclass(frozen=True)
class BinnedMetric(Metric[Sums]):
    """A metric over equal-width bins; a subclass writes `_value`.

    Arguments:
        bins: Number of bins.
    """

    bins: int = 100

    @final
    def _summary(self) -> Summary[Sums]:
        return BinSums(self.bins)


SMOOTHED_POSITIVES = 0.5
"""Cells without positives count as if they had half a one in the smoothed variant."""


def mean_error(cells: CellSums) -> Value:
    r"""Returns the row-weighted mean of :math:`|\bar p - \bar y|` over cells."""
    weight = float(cells.weight.sum())
    return Value(float(cells.gap.sum()) / weight) if weight > 0.0 else Value.undefined("no rows")


def relative_error(cells: CellSums, what: str) -> Value:
    r"""Returns the row-weighted mean of :math:`|\sum(p-y)| / \sum y` over cells.

    .. math:: \frac{\sum_v n_v\, |\sum_{i\in v}(p_i-y_i)| / \sum_{i\in v} y_i}{\sum_v n_v}

    Cells without a positive label are dropped from numerator and denominator. Dropping is optimistic: over-prediction
    there costs nothing. Therefore the details carry `dropped_row_share` and `smoothed`, where nothing is dropped and
    the divisor is :math:`\max(\sum y, 1/2)`.

    Arguments:
        cells: Sums per cell.
        what: What a cell is called in the reason, such as "bin".
    """
    weight = float(cells.weight.sum())
    if weight == 0.0:
        return Value.undefined("no rows")
    kept = cells.positive > 0.0
    smoothed = cells.gap / np.maximum(cells.positive, SMOOTHED_POSITIVES)
    details = {
        "dropped_row_share": float(cells.weight[~kept].sum()) / weight,
        "smoothed": float(np.dot(cells.weight, smoothed)) / weight,
    }
    if not kept.any():
        return Value.undefined(f"no {what} has a positive label to divide by", details)
    rows = cells.weight[kept]
    return Value(float(np.dot(rows, cells.gap[kept] / cells.positive[kept])) / float(rows.sum()), details=details)


@final
@dataclass(frozen=True)
class Totals(SumSummary):
    """Row count, predicted and observed positives, all as weighted sums."""

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        return cell_terms(forecast.probabilities, None, 1)


@final
@dataclass(frozen=True)
class Pcoc(Metric[Sums]):
    r"""Predicted clicks over clicks: the global bias as a ratio.

    .. math:: \frac{\sum_i p_i}{\sum_i y_i}

    1 is ideal, 1.1 means ten percent too many clicks were predicted. Undefined without a positive label.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(Pcoc().of(Forecast.of([0, 1], [0.3, 0.8])).number, 6)
        1.1
    """

    name = "pcoc"
    goal = toward(1.0)

    def _summary(self) -> Summary[Sums]:
        return Totals()

    def _value(self, state: Sums) -> Value:
        if state.total("weight") == 0.0:
            return Value.undefined("no rows")
        if state.total("positive") == 0.0:
            return Value.undefined("no positive label to divide by")
        return Value(state.total("predicted") / state.total("positive"))


@final
@dataclass(frozen=True)
class Ece(BinnedMetric):
    r"""Expected calibration error over M equal-width bins.

    .. math:: \frac{1}{n}\sum_k \Bigl|\sum_{i \in k} (p_i - y_i)\Bigr|

    No bin is divided by its size, so empty bins need no rule. A prediction of exactly 1 sits in a bin of its own
    behind the last one.

    Arguments:
        bins: M.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> round(Ece(bins=100).of(Forecast.of([1, 1, 0], [1.0, 0.995, 0.995])).number, 6)
        0.33
    """

    name = "ece"
    goal = minimize
    limits = (0.0, 1.0)

    def _value(self, state: Sums) -> Value:
        return mean_error(cell_sums(state))


@final
@dataclass(frozen=True)
class AdaptiveEce(Metric[OrderedCells]):
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
    cells: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive_count("bins", self.bins)

    def _summary(self) -> Summary[OrderedCells]:
        return ScoreOrder(self.cells)

    def _value(self, state: OrderedCells) -> Value:
        weight = float(state.weight.sum())
        if weight == 0.0:
            return Value.undefined("no rows")
        sums, torn = equal_mass(state, self.bins)
        details = {} if state.exact else {"error_bound": 2.0 * float(torn.sum()) / weight}
        return Value(float(sums.gap.sum()) / weight, details=details)


def equal_mass(state: OrderedCells, bins: int) -> tuple[CellSums, Floats]:
    """Cuts rows ordered by prediction into bins that hold the same number of rows.

    Whole-number weights are cut as `np.array_split` cuts repeated rows: the first bins hold one row more when the
    division leaves a remainder. Other weights are cut at exactly equal mass. Rows with equal predictions that fall on
    a cut share their labels evenly between both sides, so the result does not depend on the order of rows; without
    ties it is the plain sort-and-split.

    Arguments:
        state: Ordered cells.
        bins: How many bins.

    Returns:
        The sums per bin, and for each inner cut the weight of the cell it falls into (0 when it falls between cells).

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> rows = Forecast.of([0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.5])
        >>> equal_mass(ScoreOrder().summarize(rows), 2)[0].weight.tolist()
        [3.0, 2.0]
    """
    mass = _running(state.weight)
    cuts = _cuts(state.weight, float(mass[-1]), bins)
    predicted = np.diff(np.interp(cuts, mass, _running(state.predicted)))
    positive = np.diff(np.interp(cuts, mass, _running(state.positive)))
    sums = CellSums(np.diff(cuts), predicted, positive)
    inner = cuts[1:-1]
    cell = np.clip(np.searchsorted(mass, inner, side="left") - 1, 0, max(state.weight.shape[0] - 1, 0))
    inside = (inner > mass[cell]) & (inner < mass[cell + 1])
    return sums, np.where(inside, state.weight[cell], 0.0)


def _running(column: Floats) -> Floats:
    total = np.zeros(column.shape[0] + 1)
    np.cumsum(column, out=total[1:])
    return total


def _cuts(weight: Floats, total: float, bins: int) -> Floats:
    steps = np.arange(bins + 1)
    if np.array_equal(weight, np.floor(weight)):
        size, rest = divmod(total, bins)
        return np.asarray(steps * size + np.minimum(steps, rest), dtype=np.float64)
    return np.asarray(steps * (total / bins), dtype=np.float64)


@final
@dataclass(frozen=True)
class Mce(BinnedMetric):
    r"""Maximum calibration error: the largest :math:`|\bar y_k - \bar p_k|` over non-empty equal-width bins.

    A bin with a single row counts as much as one with a million, so on real logs this number is mostly noise;
    read it beside its noise floor.

    Arguments:
        bins: Number of bins, as in ECE.

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


@final
@dataclass(frozen=True)
class Rce(BinnedMetric):
    r"""Relative calibration error over equal-width bins: the row-weighted mean of :math:`|\bar y_k-\bar p_k|/\bar y_k`.

    Bins without positives are dropped from numerator and denominator; the details carry `dropped_row_share` and the
    `smoothed` variant, which drops nothing and divides by :math:`\max(\sum y, 1/2)`.

    Arguments:
        bins: Number of bins, as in ECE.

    Example:
        >>> from monocal.metrics.forecast import Forecast
        >>> value = Rce(bins=2).of(Forecast.of([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9]))
        >>> round(value.number, 6), value.details["dropped_row_share"]
        (0.25, 0.5)
    """

    name = "rce"
    goal = minimize

    def _value(self, state: Sums) -> Value:
        return relative_error(cell_sums(state), "bin")
