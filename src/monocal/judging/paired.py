"""How much two forecasts of the same rows differ in log-loss, in all rows or cell by cell, and how surely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, logit

POWER_QUANTILE = 0.8416
"""Quantile of the normal distribution at 80 %: with so many rows four gates in five decide."""


@final
@dataclass(frozen=True, eq=False)
class PairedLosses:
    r"""Mean difference of log-loss per cell, :math:`\bar d = \sum w (\ell_2 - \ell_1) / \sum w`, with its error.

    Rows of one group are one observation: the variance is :math:`\frac{G}{G-1} \sum_g (\sum_{i \in g} w_i (d_i -
    \bar d))^2 / (\sum w)^2`. Statistics are referred to Student's distribution with G − 1 degrees of freedom.

    Attributes:
        weight: Rows, counted with their weights.
        n_units: Independent observations: groups, or rows.
        first: Mean log-loss of the first forecast.
        second: Of the second.
        error: Standard error of the difference; NaN below two observations.
    """

    weight: Floats
    n_units: NDArray[np.int64]
    first: Floats
    second: Floats
    error: Floats

    @property
    def difference(self) -> Floats:
        """Second minus first; negative where the second is better."""
        return self.second - self.first

    def p_above(self, threshold: Floats | float) -> Floats:
        """Returns p-values of the hypothesis that the true difference is at most `threshold`."""
        return self._tail(self.difference - threshold)

    def p_below(self, threshold: Floats | float) -> Floats:
        """Returns p-values of the hypothesis that the true difference is at least `threshold`."""
        return self._tail(threshold - self.difference)

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """Returns both ends of the two-sided interval of the difference."""
        from scipy.stats import t

        reach = t.ppf(0.5 + 0.5 * confidence, np.maximum(self.n_units - 1, 1)) * self.error
        return self.difference - reach, self.difference + reach

    def units_needed(self, margin: float, confidence: float) -> int:
        """Returns how many observations like those of all rows bring an end of the interval by `margin` nearer.

        Four times in five; 0 if a single observation does not say how much differences vary.
        """
        from scipy.stats import norm

        spread = float(self.error[0]) ** 2 * float(self.n_units[0])
        needed = spread * ((norm.ppf(0.5 + 0.5 * confidence) + POWER_QUANTILE) / margin) ** 2
        return math.ceil(needed) if math.isfinite(needed) else 0

    def take(self, cells: NDArray[Any]) -> PairedLosses:
        """Returns the chosen cells."""
        columns = (self.weight, self.n_units, self.first, self.second, self.error)
        return PairedLosses(*(column[cells] for column in columns))

    def _tail(self, distance: Floats) -> Floats:
        from scipy.stats import t

        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = distance / self.error
        # forecasts that agree in every row have no error: a distance of 0 proves nothing
        statistic = np.where(distance == 0.0, 0.0, statistic)
        p: Floats = np.where(np.isnan(self.error), 1.0, t.sf(statistic, np.maximum(self.n_units - 1, 1)))
        return p


def paired_losses(
    labels: Floats,
    first: Floats,
    second: Floats,
    cells: NDArray[np.integer[Any]] | None = None,
    n_cells: int = 1,
    *,
    weights: Floats | None = None,
    groups: NDArray[Any] | None = None,
) -> PairedLosses:
    """Compares the log-loss of two forecasts of the same rows.

    Arguments:
        labels: 0.0 or 1.0 per row.
        first: Probabilities of the reference.
        second: Probabilities of the challenger.
        cells: The cell of each row, from 0; None puts all rows into one.
        n_cells: How many cells there are.
        weights: How often each row counts.
        groups: One id per group of rows that are not independent.

    Example:
        The second forecast is right, the first a quarter too high.

        >>> random = np.random.default_rng(0)
        >>> truth = random.uniform(0.02, 0.3, 40_000)
        >>> labels = (random.random(40_000) < truth).astype(float)
        >>> found = paired_losses(labels, 1.25 * truth, truth)
        >>> bool(found.difference[0] < 0.0), bool(found.p_below(0.0)[0] < 0.01), bool(found.p_above(0.0)[0] > 0.9)
        (True, True, True)
    """
    n = labels.shape[0]
    ids = np.zeros(n, dtype=np.int64) if cells is None else np.asarray(cells, dtype=np.int64)
    w = np.ones(n) if weights is None else weights
    losses = [log_losses(logit(p), labels) for p in (first, second)]
    weight: Any = np.bincount(ids, w, n_cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [np.bincount(ids, w * loss, n_cells) / weight for loss in losses]
    residual: Any = w * (losses[1] - losses[0] - (means[1] - means[0])[ids])
    owner = ids
    if groups is not None:
        # groups may be any ids: one unit per cell and group
        _, unit = np.unique(np.column_stack([ids, groups]), axis=0, return_inverse=True)
        unit = unit.ravel()
        owner = np.zeros(int(unit.max()) + 1, dtype=np.int64)
        owner[unit] = ids
        residual = np.bincount(unit, weights=residual)
    n_units = np.bincount(owner, minlength=n_cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.bincount(owner, residual**2, n_cells) * n_units / (n_units - 1) / weight**2
    error = np.where(n_units > 1, np.sqrt(variance), np.nan)
    return PairedLosses(weight, n_units, means[0], means[1], error)
