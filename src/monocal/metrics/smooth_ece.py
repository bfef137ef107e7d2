"""Smooth calibration error: no bins, one bandwidth that the data chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.goals import minimize
from monocal.core.spaces import Floats
from monocal.metrics.base import Metric, Summary, Value, check_positive_count
from monocal.metrics.forecast import Forecast
from monocal.metrics.sums import Sums, SumSummary, Term

_MOST_STEPS = 100


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
        """Returns the bandwidth that equals its own area, to 1e-12, by false position.

        The area does not grow with the bandwidth, so `bandwidth − area` rises with slope 1 at least: it has one root,
        and its value at any point bounds the distance from the root.
        """
        low, below = 0.0, -self.area(0.0)
        high, above = 1.0, 1.0 - self.area(1.0)
        guess, last = 0.0, 0
        for _ in range(_MOST_STEPS):
            guess = (low * above - high * below) / (above - below)
            beyond = guess - self.area(guess)
            if abs(beyond) <= 1e-12:
                break
            side = 1 if beyond > 0.0 else -1
            # an end that stays twice is weighed down by half, or it would hold the next guess back
            if side > 0:
                high, above = guess, beyond
                below = 0.5 * below if last == side else below
            else:
                low, below = guess, beyond
                above = 0.5 * above if last == side else above
            last = side
        return guess
