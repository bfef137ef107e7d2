"""Calibration without bins of the prediction: smoothed along it, or over random partitions of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.metrics.base import Metric, Replay, Summary, Value, check_positive_count, minimize
from monocal.metrics.forecast import Forecast
from monocal.metrics.sums import SumReplay, Sums, SumSummary, Term


@final
@dataclass(frozen=True)
class ResidualGrid(SumSummary):
    """Prediction minus label on an even grid over [0, 1], each row split linearly between its two neighbours.

    Arguments:
        steps: Grid steps; there is one more point than steps.
    """

    steps: int = 2000

    def __post_init__(self) -> None:
        check_positive_count("grid", self.steps)

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        position = forecast.probabilities * self.steps
        left = np.minimum(position.astype(np.int32), self.steps - 1)
        to_right = position - left
        to_left = 1.0 - to_right
        n_points = self.steps + 1
        return (
            Term("weight", 1.0, 0.0),
            Term("left", to_left * forecast.probabilities, -to_left, left, n_points),
            Term("right", to_right * forecast.probabilities, -to_right, left + 1, n_points),
        )


@final
@dataclass(frozen=True)
class SmoothEce(Metric[Sums]):
    r"""Smooth ECE: the residuals are smoothed along the prediction before their absolute value is taken.

    .. math:: \text{smECE}_h = \int_0^1 \Bigl|\frac{1}{n}\sum_i (y_i-p_i) K_h(t,p_i)\Bigr| dt

    K is the Gaussian kernel of bandwidth h, reflected at 0 and 1. :math:`\text{smECE}_h` does not increase with h, so
    there is one :math:`h^*` with :math:`\text{smECE}_{h^*} = h^*`; that number is the value. The state is a grid of
    residuals and adds up. Splitting a row between two grid points δ apart changes :math:`\text{smECE}_h` by at most
    :math:`\delta^2/(8h^2)` times the mean absolute residual: below one part in a thousand for h above 0.006.

    References:
        Błasiok and Nakkiran. Smooth ECE: principled reliability diagrams via kernel smoothing. 2023.

    Arguments:
        bandwidth: None for the fixed point, or a given h.
        grid: Grid steps over [0, 1].

    Example:
        >>> rows = Forecast.of([0, 1, 0, 1], [0.4, 0.4, 0.6, 0.6])
        >>> round(SmoothEce().of(rows).number, 4), round(SmoothEce(bandwidth=0.5).of(rows).number, 4)
        (0.0793, 0.0115)
    """

    name = "smooth_ece"
    goal = minimize
    limits = (0.0, 1.0)

    bandwidth: float | None = None
    grid: int = 2000

    def __post_init__(self) -> None:
        self._summary()
        if self.bandwidth is not None and not self.bandwidth > 0.0:
            raise InvalidInput.of("bandwidth", self.bandwidth, "a number above 0", "leave it out for the fixed point")

    def _summary(self) -> Summary[Sums]:
        return ResidualGrid(self.grid)

    def _value(self, state: Sums) -> Value:
        weight = state.total("weight")
        if weight == 0.0:
            return Value.undefined("no rows")
        residuals = (state["left"] + state["right"]) / weight
        curve = _SmoothedCurve(residuals)
        if self.bandwidth is not None:
            return Value(curve.area(self.bandwidth), details={"bandwidth": self.bandwidth})
        number = curve.fixed_point()
        return Value(number, details={"bandwidth": number})


@final
class _SmoothedCurve:
    """Residuals on a grid, ready to be smoothed with any bandwidth.

    A cosine transform reflects at both ends by itself, and smoothing is a product there: the wave with k half-turns
    over [0, 1] shrinks by exp(−(π k h)²/2).
    """

    def __init__(self, residuals: Floats) -> None:
        from scipy.fft import dct

        # the mirror image of an end point falls on the point itself; the transform would count it once only
        density = residuals * (residuals.shape[0] - 1)
        density[[0, -1]] *= 2.0
        self._waves = dct(density, type=1)
        self._half_turns = np.pi * np.arange(residuals.shape[0])

    def area(self, bandwidth: float) -> float:
        from scipy.fft import idct

        curve = np.abs(idct(self._waves * np.exp(-0.5 * (self._half_turns * bandwidth) ** 2), type=1))
        return float((curve.sum() - 0.5 * (curve[0] + curve[-1])) / (curve.shape[0] - 1))

    def fixed_point(self) -> float:
        """Returns the bandwidth that equals its own area, to 1e-12.

        The area does not grow with the bandwidth, so `bandwidth − area` rises with slope 1 at least: it has one root.
        """
        from scipy.optimize import brentq

        # an area of 1 may be one ulp more
        return min(float(brentq(lambda bandwidth: bandwidth - self.area(bandwidth), 0.0, 2.0, xtol=1e-12)), 1.0)


_REPLAY_VIEWS = 3


@final
@dataclass(frozen=True, eq=False)
class Residuals:
    """Every row's prediction minus label, with its weight (None: once)."""

    residuals: Floats
    weights: Floats | None


@final
@dataclass(frozen=True)
class ResidualRows(Summary[Residuals]):
    """Keeps the residuals, because random partitions need every row; replicates keep a few partitions instead.

    Arguments:
        parts: Parts per view.
        seed: Seed of the views that replicates keep.
    """

    parts: int
    seed: int

    @property
    def bounded(self) -> bool:
        return False

    def summarize(self, forecast: Forecast) -> Residuals:
        return Residuals(forecast.probabilities - forecast.labels, forecast.weights)

    def merge(self, a: Residuals, b: Residuals) -> Residuals:
        weights = None
        if a.weights is not None or b.weights is not None:
            weights = np.concatenate(
                [np.ones(s.residuals.shape[0]) if s.weights is None else s.weights for s in (a, b)]
            )
        return Residuals(np.concatenate([a.residuals, b.residuals]), weights)

    def replay(self, forecast: Forecast) -> Replay[Sums]:
        rng = np.random.default_rng(self.seed)
        n = forecast.n_rows
        parts = max(min(self.parts, n), 1)
        terms: list[Term] = []
        for view in range(_REPLAY_VIEWS):
            part = (rng.permutation(n) % parts).astype(np.int32)
            terms.append(Term(f"{view}/weight", 1.0, 0.0, part, parts))
            terms.append(Term(f"{view}/residual", forecast.probabilities, -1.0, part, parts))
        return SumReplay(tuple(terms), forecast)


@final
@dataclass(frozen=True)
class Mvce(Metric[Residuals]):
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

    def _summary(self) -> Summary[Residuals]:
        return ResidualRows(self.parts, self.seed)

    def _value(self, state: Residuals | Sums) -> Value:
        if isinstance(state, Sums):
            errors = [_mean_gap(state[f"{view}/weight"], state[f"{view}/residual"]) for view in range(_REPLAY_VIEWS)]
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
