r"""Predicted against observed positives of one forecast, in cells: a field value, a time window, a pair of values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.scores import Floats
from monocal.evaluation.stats import MatchedCounts, matched_counts, ratio_interval, shrunk_ratio, two_sided_p_value
from monocal.metrics.forecast import Forecast, IdColumn
from monocal.metrics.sums import sum_per_cell


@final
@dataclass(frozen=True, eq=False)
class Cells:
    r"""Sums per cell, and what follows from them.

    Attributes:
        weight: Rows, counted with their weights.
        effective_weight: What one independent observation weighs: :math:`\sum w^2/\sum w`, times the dispersion.
        observed: Positives that happened.
        predicted: Positives that were predicted, :math:`\sum w p`.
        squares: :math:`\sum w p^2`, from which the noise follows.
        observed_value: Value that was delivered, :math:`\sum w b y`; None without a value column.
        predicted_value: Value that was predicted, :math:`\sum w b p`; None likewise.
    """

    weight: Floats
    effective_weight: Floats
    observed: Floats
    predicted: Floats
    squares: Floats
    observed_value: Floats | None = None
    predicted_value: Floats | None = None

    @property
    def n_cells(self) -> int:
        return int(self.weight.shape[0])

    @cached_property
    def counts(self) -> MatchedCounts:
        """Binomial stand-ins, to which the statistics of small counts apply."""
        return matched_counts(self.observed, self.predicted, self.squares, self.effective_weight)

    @cached_property
    def pcoc(self) -> Floats:
        """Predicted over observed positives; NaN without a positive."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio: Floats = np.where(self.observed > 0.0, self.predicted / self.observed, np.nan)
        return ratio

    @cached_property
    def shrunk_pcoc(self) -> Floats:
        """PCOC pulled towards 1, the more the fewer positives a cell has."""
        return shrunk_ratio(self.counts)

    @cached_property
    def p_values(self) -> Floats:
        """Two-sided, against a calibrated forecast."""
        return two_sided_p_value(self.counts)

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """Returns both ends of the interval of PCOC; the upper one is infinite without a positive."""
        return ratio_interval(self.counts, confidence)

    @property
    def gap(self) -> Floats:
        """Predicted minus observed positives."""
        return self.predicted - self.observed

    @property
    def value_gap(self) -> Floats:
        """Predicted minus delivered value; NaN without a value column."""
        if self.predicted_value is None or self.observed_value is None:
            return np.full(self.n_cells, np.nan)
        return self.predicted_value - self.observed_value

    @property
    def observed_rate(self) -> Floats:
        return self.observed / self.weight

    @property
    def predicted_rate(self) -> Floats:
        return self.predicted / self.weight

    def take(self, cells: NDArray[Any] | slice) -> Cells:
        """Returns the chosen cells."""
        columns = (self.weight, self.effective_weight, self.observed, self.predicted, self.squares)
        values = (self.observed_value, self.predicted_value)
        return Cells(
            *(column[cells] for column in columns), *(None if value is None else value[cells] for value in values)
        )


def sum_cells(
    forecast: Forecast, ids: IdColumn, n_cells: int, *, values: Floats | None = None, dispersion: float = 1.0
) -> Cells:
    """Adds up rows per cell.

    Arguments:
        forecast: The rows.
        ids: The cell of each row, from 0.
        n_cells: How many cells there are.
        values: What one positive of each row is worth.
        dispersion: See `dispersion_of`.

    Example:
        >>> cells = sum_cells(Forecast.of([1, 0, 1], [0.5, 0.5, 0.25]), np.array([0, 0, 1]), 2)
        >>> cells.predicted.tolist(), cells.observed.tolist(), cells.pcoc.tolist()
        ([1.0, 0.25], [1.0, 1.0], [1.0, 0.25])
    """
    labels, p, weights = forecast.labels, forecast.probabilities, forecast.weights

    def total(amounts: Floats | float) -> Floats:
        return sum_per_cell(ids, n_cells, amounts, weights, labels.shape[0])

    weight = total(1.0)
    effective = np.full(n_cells, dispersion)
    if weights is not None:
        effective = effective * (total(weights) / np.maximum(weight, np.finfo(np.float64).tiny))
    return Cells(
        weight,
        np.where(weight > 0.0, effective, 1.0),
        total(labels),
        total(p),
        total(p * p),
        None if values is None else total(values * labels),
        None if values is None else total(values * p),
    )


def dispersion_of(forecast: Forecast, ids: IdColumn) -> float:
    r"""How much wider the noise of cells' sums is because rows of one group are dependent; 1 without groups.

    .. math:: \phi = \max\Big(1, \frac{\sum_{c,g} (\sum_{i \in c \cap g} w_i r_i)^2}{\sum_i w_i^2 r_i^2}\Big),
              \quad r = y - p

    Only rows of one group *in the same cell* widen a cell's noise: users spread over many sites hardly matter for
    sites. The mean residual is taken out first, because a common shift is bias and not dependence; for the same reason
    the best forecast at hand should be given, not the one under test. When cells and groups are the same, what a
    group's rows have in common is what is to be measured: 1.

    Arguments:
        forecast: The rows, with the forecast whose residuals are looked at.
        ids: The cell of each row.

    Example:
        Every row four times under the name of one user:

        >>> rng = np.random.default_rng(0)
        >>> user = np.repeat(np.arange(5_000), 4)
        >>> labels = (rng.random(5_000) < 0.1)[user]
        >>> round(dispersion_of(Forecast.of(labels, np.full(20_000, 0.1), groups=user), np.zeros(20_000, dtype=int)), 2)
        4.0
    """
    groups, weights = forecast.groups, forecast.weights
    if groups is None:
        return 1.0
    residuals = forecast.labels - forecast.probabilities
    residuals = residuals - np.average(residuals, weights=weights)
    if weights is not None:
        residuals = residuals * weights
    alone = float(np.sum(residuals**2))
    if alone <= 0.0:
        return 1.0
    n_groups = int(groups.max()) + 1
    seen, shared = np.unique(ids.astype(np.int64) * n_groups + groups, return_inverse=True)
    n_cells = np.count_nonzero(np.bincount(ids))
    if seen.shape[0] == n_cells == np.count_nonzero(np.bincount(groups)):
        return 1.0
    together = float(np.sum(np.bincount(shared, weights=residuals) ** 2))
    return max(1.0, together / alone)
