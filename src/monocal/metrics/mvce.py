"""Multi-view calibration error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.goals import minimize
from monocal.core.spaces import Floats
from monocal.metrics.base import Metric, Summary, Value, check_positive_count
from monocal.metrics.forecast import Forecast
from monocal.metrics.replay import Blocks, Replay, Rows
from monocal.metrics.sums import SumReplay, Sums, Term

_REPLAY_VIEWS = 3


@final
@dataclass(frozen=True, eq=False)
class Residuals:
    """Every row's prediction minus label, with its weight (None: once)."""

    residuals: Floats
    weights: Floats | None


@final
@dataclass(frozen=True, eq=False)
class ViewSums:
    """Rows and summed residuals per part, one array per view."""

    weight: tuple[Floats, ...]
    residual: tuple[Floats, ...]


@final
@dataclass(frozen=True)
class ResidualRows(Summary[Residuals | ViewSums]):
    """Keeps the residuals, because random partitions need every row.

    Arguments:
        parts: Parts per view.
        seed: Seed of the views that replicates keep.
    """

    parts: int
    seed: int

    def _bounded(self) -> bool:
        return False

    def _summarize(self, forecast: Forecast) -> Residuals:
        return Residuals(forecast.probabilities - forecast.labels, forecast.weights)

    def _merge(self, a: Residuals | ViewSums, b: Residuals | ViewSums) -> Residuals:
        assert isinstance(a, Residuals)
        assert isinstance(b, Residuals)
        weights = None
        if a.weights is not None or b.weights is not None:
            weights = np.concatenate(
                [np.ones(s.residuals.shape[0]) if s.weights is None else s.weights for s in (a, b)]
            )
        return Residuals(np.concatenate([a.residuals, b.residuals]), weights)

    def _replay(self, forecast: Forecast) -> Replay[Residuals | ViewSums]:
        return _ViewReplay(forecast, self.parts, self.seed)


@final
class _ViewReplay(Replay[Residuals | ViewSums]):
    """Replicates on a few partitions that are drawn once and kept."""

    def __init__(self, forecast: Forecast, parts: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n = forecast.n_rows
        parts = max(min(parts, n), 1)
        terms: list[Term] = []
        for view in range(_REPLAY_VIEWS):
            part = (rng.permutation(n) % parts).astype(np.int32)
            terms.append(Term(f"{view}/weight", 1.0, 0.0, part, parts))
            terms.append(Term(f"{view}/residual", forecast.probabilities, -1.0, part, parts))
        self._sums = SumReplay(tuple(terms), forecast)

    def _relabelled(self, positive_rows: Rows) -> ViewSums:
        return _views(self._sums.relabelled(positive_rows))

    def _reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[Residuals | ViewSums]:
        return map(_views, self._sums.reweighted(blocks, counts))


@final
@dataclass(frozen=True)
class Mvce(Metric[Residuals | ViewSums]):
    r"""Multi-view calibration error: how far the mean label is from the mean prediction in random parts of the log.

    Each of R views is a random partition into P equal parts; its error is the mean of :math:`|\bar y-\bar p|` over
    parts, and the value is the root mean square over views. Views are drawn by seed on the rows sorted by residual, so
    the order of rows does not matter, and a row of whole-number weight k is k rows. The state keeps every residual:
    it merges exactly but grows with the rows. With fewer rows than parts, each row is a part.

    References:
        Huang et al. MBCT: tree-based feature-aware binning for individual uncertainty calibration. 2022.

    Arguments:
        views: R.
        parts: P.
        seed: Seed of the partitions.

    Example:
        >>> rows = Forecast.of([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5])
        >>> Mvce(parts=1).of(rows).number, Mvce(parts=4).of(rows).number
        (0.0, 0.5)
    """

    name = "mvce"
    goal = minimize
    limits = (0.0, 1.0)

    views: int = 10
    parts: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive_count("views", self.views)
        check_positive_count("parts", self.parts)

    def _summary(self) -> Summary[Residuals | ViewSums]:
        return ResidualRows(self.parts, self.seed)

    def _value(self, state: Residuals | ViewSums) -> Value:
        if isinstance(state, ViewSums):
            errors = [_mean_gap(weight, sums) for weight, sums in zip(state.weight, state.residual, strict=True)]
            return Value(_rms(errors)) if np.all(np.isfinite(errors)) else Value.undefined("no rows")
        residuals, weights = _sorted_rows(state)
        if residuals.shape[0] == 0:
            return Value.undefined("no rows")
        parts = min(self.parts, residuals.shape[0])
        rng = np.random.default_rng(self.seed)
        orders = (rng.permutation(residuals.shape[0]) for _ in range(self.views))
        errors = [_view_error(residuals, weights, order, parts) for order in orders]
        details = {"views": float(self.views), "parts": float(parts), "mean": float(np.mean(errors))}
        return Value(_rms(errors), details=details)


def view_errors(labels: ArrayLike, probabilities: ArrayLike, orders: Iterable[ArrayLike], parts: int) -> list[float]:
    """Returns the error of each view when the partitions are given: an order of the rows, cut into equal parts.

    Arguments:
        labels: 0 or 1 per row.
        probabilities: One per row.
        orders: For each view, the row numbers in its order.
        parts: How many parts each order is cut into.

    Example:
        >>> view_errors([0, 1, 1, 0], [0.5, 0.5, 0.5, 0.5], [[0, 1, 2, 3], [1, 2, 0, 3]], parts=2)
        [0.0, 0.5]
    """
    rows = Forecast.of(labels, probabilities)
    residuals = rows.probabilities - rows.labels
    return [_view_error(residuals, None, np.asarray(order), parts) for order in orders]


def _view_error(residuals: Floats, weights: Floats | None, order: NDArray[Any], parts: int) -> float:
    if weights is None:
        size, rest = divmod(residuals.shape[0], parts)
        starts = np.arange(parts) * size + np.minimum(np.arange(parts), rest)
        counts = np.diff(starts, append=residuals.shape[0])
        return _mean_gap(counts.astype(np.float64), np.add.reduceat(residuals[order], starts))
    mass = np.concatenate([[0.0], np.cumsum(weights[order])])
    sums = np.concatenate([[0.0], np.cumsum((weights * residuals)[order])])
    cuts = np.linspace(0.0, mass[-1], parts + 1)
    return _mean_gap(np.diff(cuts), np.diff(np.interp(cuts, mass, sums)))


def _sorted_rows(state: Residuals) -> tuple[Floats, Floats | None]:
    if state.weights is None:
        return np.sort(state.residuals), None
    order = np.lexsort((state.weights, state.residuals))
    order = order[state.weights[order] > 0.0]
    residuals, weights = state.residuals[order], state.weights[order]
    if np.array_equal(weights, np.floor(weights)):
        return np.repeat(residuals, weights.astype(np.int64)), None
    return residuals, weights


def _mean_gap(weight: Floats, residual: Floats) -> float:
    filled = weight > 0.0
    return float(np.mean(np.abs(residual[filled] / weight[filled]))) if filled.any() else float("nan")


def _rms(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _views(sums: Sums) -> ViewSums:
    return ViewSums(
        tuple(sums[f"{view}/weight"] for view in range(_REPLAY_VIEWS)),
        tuple(sums[f"{view}/residual"] for view in range(_REPLAY_VIEWS)),
    )
