"""Is the second forecast better than the first on the same rows, or can the data not tell?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, check_known
from monocal.core.numbers import plain_values, significant
from monocal.core.scores import Floats, log_losses, logit
from monocal.evaluation.result import Evaluation
from monocal.metrics import Interval, centred_interval
from monocal.metrics.base import Goal
from monocal.tables.result import Tabular

Outcome = Literal["better", "worse", "tie", "cannot tell"]

MARGIN = 1e-4
"""Differences below a hundredth of a percent are ties however many rows prove them: nobody would pay for one."""


def compare_evaluations(first: Evaluation, second: Evaluation, *, margin: float = MARGIN) -> Comparison:
    """Compares two evaluations on the same rows, resampling both in the same way.

    Both forecasts see the same resampled rows (or users, where groups were given), so what they have in common cancels
    and small differences become visible. Nothing is computed before it is asked for.

    Arguments:
        first: The reference, such as the uncalibrated forecast.
        second: The other forecast.
        margin: Differences below this share of the first value are ties; of PCOC, below this distance.

    Example:
        >>> from monocal.evaluation.evaluate import evaluate
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.uniform(0.02, 0.3, 20_000)
        >>> labels = rng.random(20_000) < truth
        >>> result = compare_evaluations(evaluate(labels, 1.1 * truth), evaluate(labels, truth))
        >>> result.verdict("log_loss"), result.verdict("auc"), result.describe("pcoc")
        ('better', 'tie', 'better by 0.0932')
    """
    _check_same_rows(first, second)
    if not 0.0 <= margin < 1.0:
        raise InvalidInput.of("margin", margin, "a share in [0, 1)", f"leave it out to use {MARGIN:g}")
    return Comparison(first, second, margin)


@final
class Comparison(Tabular):
    """Paired differences between two forecasts: second minus first.

    For PCOC, whose ideal is 1, the difference is that of the distances from 1: negative is nearer.

    Attributes:
        first: Evaluation of the reference.
        second: Of the other forecast.
        margin: Share of the first value below which a difference is a tie.
        names: Metrics that both hold with the same options.
    """

    def __init__(self, first: Evaluation, second: Evaluation, margin: float = MARGIN) -> None:
        self.first, self.second, self.margin = first, second, margin
        self.names = tuple(name for name in first.names if first.metrics[name] == second.metrics.get(name))

    def difference(self, name: str) -> float:
        """The second value minus the first, for PCOC as distances from 1; NaN when either is undefined."""
        return float(self._distance(name, self.second.value(name)) - self._distance(name, self.first.value(name)))

    def interval(self, name: str) -> Interval:
        """Bootstrap interval of the difference."""
        first, second = (self._distance(name, report.replicates(name)) for report in (self.first, self.second))
        return centred_interval(self.difference(name), second - first, self.first.confidence)

    def size(self, name: str) -> float:
        """The difference as a share of the first value; of PCOC, the difference itself."""
        value = self.first.value(name)
        scale = 1.0 if self._is_ratio(name) else abs(value)
        return self.difference(name) / scale if scale > 0.0 else float("nan")

    @cached_property
    def too_few(self) -> str:
        """Why nothing is claimed about any difference: too few rows; empty if they are enough."""
        return self.first.too_few()

    def verdict(self, name: str) -> Outcome:
        """What the second is, by the metric's goal.

        "tie" unless the paired interval excludes equality and the difference is larger than the margin; "cannot tell"
        on too few rows (`too_few`). Verdicts are one by one: among twenty verdicts at 95 % one may be chance.
        """
        low, high = self.interval(name)
        if self.too_few:
            return "cannot tell"
        if not (high < 0.0 or low > 0.0) or abs(self.size(name)) < self.margin:
            return "tie"
        return "better" if (high < 0.0) != (self._goal(name).kind == "maximize") else "worse"

    def describe(self, name: str) -> str:
        """The verdict with the size of the difference, such as "better by 12.3 %"."""
        verdict, size = self.verdict(name), abs(self.size(name))
        if verdict not in ("better", "worse"):
            return verdict
        return f"{verdict} by " + (significant(size) if self._is_ratio(name) else f"{significant(100.0 * size)} %")

    def plot(self, *, ax: Any = None) -> Any:
        """Draws every metric's change with its interval, see `reports.figures.draw_changes`; needs `monocal[plot]`.

        Arguments:
            ax: Axes of matplotlib; None makes a new figure.
        """
        from monocal.reports.figures import draw_changes

        return draw_changes(self, ax)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Returns differences, intervals and verdicts of all metrics that are defined for both."""
        self.first.compute_intervals(self.names)
        self.second.compute_intervals(self.names)
        return {
            name: {
                "first": self.first.value(name),
                "second": self.second.value(name),
                "difference": self.difference(name),
                "interval": plain_values(self.interval(name)),
                "size": self.size(name),
                "verdict": self.verdict(name),
            }
            for name in self.names
            if np.isfinite(self.difference(name))
        }

    def __repr__(self) -> str:
        return f"Comparison of {len(self.names)} metrics on {self.first.n_rows:,} rows; print it for the table"

    def _columns(self) -> dict[str, list[Any]]:
        entries = self.as_dict()
        found: dict[str, list[Any]] = {"metric": list(entries)}
        for key in ("first", "second", "difference", "size"):
            found[key] = [entry[key] for entry in entries.values()]
        for at, end in enumerate(("low", "high")):
            found[end] = [entry["interval"][at] for entry in entries.values()]
        return found | {"verdict": [entry["verdict"] for entry in entries.values()]}

    def _goal(self, name: str) -> Goal:
        check_known("metric", name, self.names)
        return self.first.metrics[name].goal

    def _distance(self, name: str, values: Any) -> Any:
        return np.abs(values - self._goal(name).target) if self._is_ratio(name) else values

    def _is_ratio(self, name: str) -> bool:
        return self._goal(name).kind == "toward"


def _check_same_rows(first: Evaluation, second: Evaluation) -> None:
    seeds, replicates = zip(*((part.options.seed, part.options.n_bootstrap) for part in (first, second)), strict=True)
    if seeds[0] != seeds[1] or replicates[0] != replicates[1]:
        raise InvalidInput.of(
            "second",
            f"seed {seeds[1]} and n_bootstrap {replicates[1]}",
            f"those of the first evaluation ({seeds[0]} and {replicates[0]})",
            "evaluate both with the same seed and n_bootstrap, so that they are resampled alike",
        )
    for column in ("labels", "weights", "groups"):
        a, b = getattr(first.forecast, column), getattr(second.forecast, column)
        if a is not b and not (a is not None and b is not None and np.array_equal(a, b)):
            raise InvalidInput.of(
                "second",
                f"an evaluation with other {column}",
                "two forecasts of the same rows",
                f"evaluate both with the same {column}, in the same order",
            )


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
        second: Of the other.
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
