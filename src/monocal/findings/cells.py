r"""Promised against observed positives, in cells: a field value, a time window, a pair of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.findings.rows import TaskRows
from monocal.judging.small_counts import MatchedCounts, matched_counts

Side = Literal["before", "after"]
SIDES: tuple[Side, Side] = ("before", "after")


@final
@dataclass(frozen=True, eq=False)
class Promise:
    r"""What one forecast promised per cell.

    Attributes:
        predicted: Positives, :math:`\sum w p`.
        squares: :math:`\sum w p^2`, from which the noise follows.
        value: Money, :math:`\sum w b p`; None without a value column.
    """

    predicted: Floats
    squares: Floats
    value: Floats | None

    def take(self, cells: NDArray[Any] | slice) -> Promise:
        value = None if self.value is None else self.value[cells]
        return Promise(self.predicted[cells], self.squares[cells], value)


@final
@dataclass(frozen=True, eq=False)
class Cells:
    r"""Sums per cell, before and after calibration.

    Attributes:
        weight: Rows, counted with their weights.
        effective_weight: What one independent observation weighs: :math:`\sum w^2/\sum w`, times the dispersion.
        observed: Positives that happened.
        value: Money that happened; None without a value column.
        before: What the uncalibrated forecast promised.
        after: What the calibrated forecast promised.
    """

    weight: Floats
    effective_weight: Floats
    observed: Floats
    value: Floats | None
    before: Promise
    after: Promise

    @property
    def n_cells(self) -> int:
        return int(self.weight.shape[0])

    def promise(self, side: Side) -> Promise:
        return self.before if side == "before" else self.after

    def counts(self, side: Side) -> MatchedCounts:
        """Returns binomial stand-ins, to which the statistics of small counts apply."""
        one = self.promise(side)
        return matched_counts(self.observed, one.predicted, one.squares, self.effective_weight)

    def pcoc(self, side: Side) -> Floats:
        """Promised over observed positives; NaN without a positive."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio: Floats = np.where(self.observed > 0.0, self.promise(side).predicted / self.observed, np.nan)
        return ratio

    def gap(self, side: Side) -> Floats:
        """Positives promised too many (or, below zero, too few)."""
        return self.promise(side).predicted - self.observed

    def value_gap(self, side: Side) -> Floats:
        """Money promised too much; NaN without a value column."""
        promised = self.promise(side).value
        if promised is None or self.value is None:
            return np.full(self.n_cells, np.nan)
        return promised - self.value

    def take(self, cells: NDArray[Any] | slice) -> Cells:
        return Cells(
            self.weight[cells],
            self.effective_weight[cells],
            self.observed[cells],
            None if self.value is None else self.value[cells],
            self.before.take(cells),
            self.after.take(cells),
        )


def sum_cells(rows: TaskRows, ids: Ids | None, n_cells: int, dispersion: float = 1.0) -> Cells:
    """Adds up rows per cell; `ids=None` puts all rows into one cell.

    Arguments:
        rows: The rows.
        ids: The cell of each row, from 0.
        n_cells: How many cells there are.
        dispersion: See `dispersion_of`.
    """
    w = rows.weights

    def total(amounts: Floats | None) -> Floats:
        column = amounts if w is None else (w if amounts is None else w * amounts)
        if ids is None:
            return np.array([float(rows.n_rows) if column is None else float(column.sum())])
        return np.bincount(ids, weights=column, minlength=n_cells).astype(np.float64, copy=False)

    def promise(p: Floats) -> Promise:
        return Promise(total(p), total(p * p), None if rows.values is None else total(rows.values * p))

    weight = total(None)
    effective = np.ones_like(weight) if w is None else total(w) / np.maximum(weight, np.finfo(np.float64).tiny)
    return Cells(
        weight,
        np.where(weight > 0.0, effective * dispersion, 1.0),
        total(rows.labels),
        None if rows.values is None else total(rows.values * rows.labels),
        promise(rows.before),
        promise(rows.after),
    )


def dispersion_of(rows: TaskRows, ids: Ids | None = None) -> float:
    r"""How much wider the noise of cells' sums is because rows of one group hang together; 1 without groups.

    .. math:: \phi = \max\Big(1, \frac{\sum_{c,g} (\sum_{i \in c \cap g} w_i r_i)^2}{\sum_i w_i^2 r_i^2}\Big),
              \quad r = y - p'

    Only rows of one group *in the same cell* widen a cell's noise: users spread over many sites hardly matter for
    sites. It is measured on the calibrated forecast, after taking out the mean, because a common shift is bias and not
    dependence. When cells and groups are the same, what a group's rows have in common is what is to be measured: 1.

    Arguments:
        rows: The rows.
        ids: The cell of each row; None puts all rows into one cell.
    """
    if rows.groups is None:
        return 1.0
    residuals = rows.labels - rows.after
    residuals = residuals - np.average(residuals, weights=rows.weights)
    if rows.weights is not None:
        residuals = residuals * rows.weights
    alone = float(np.sum(residuals**2))
    if alone <= 0.0:
        return 1.0
    shared: NDArray[Any] = rows.groups
    if ids is not None:
        n_groups = int(rows.groups.max()) + 1
        seen, shared = np.unique(ids.astype(np.int64) * n_groups + rows.groups, return_inverse=True)
        n_cells = np.count_nonzero(np.bincount(ids))
        if seen.shape[0] == n_cells == np.count_nonzero(np.bincount(rows.groups)):
            return 1.0
    together = float(np.sum(np.bincount(shared, weights=residuals) ** 2))
    return max(1.0, together / alone)
