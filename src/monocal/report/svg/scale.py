"""From numbers to pixels, with round ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.spaces import Floats


@final
@dataclass(frozen=True)
class Scale:
    """A straight or logarithmic map of `[low, high]` onto pixels.

    Numbers beyond the ends are drawn at the ends.

    Example:
        >>> Scale(0.001, 0.1, 0, 200, logarithmic=True)([0.001, 0.01, 0.1]).tolist()
        [0.0, 100.0, 200.0]
    """

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False

    def __call__(self, numbers: ArrayLike) -> Floats:
        values = np.clip(np.asarray(numbers, dtype=np.float64), self.low, self.high)
        low, high = self.low, self.high
        if self.logarithmic:
            values, low, high = np.log(values), math.log(low), math.log(high)
        share = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
        pixels: Floats = self.start + share * (self.stop - self.start)
        return pixels

    def at(self, number: float) -> float:
        return float(self(number))

    def ticks(self, at_most: int = 6) -> list[float]:
        """Returns round numbers inside the range.

        Example:
            >>> Scale(0.0, 0.23, 0, 1).ticks()
            [0.0, 0.05, 0.1, 0.15, 0.2]
            >>> Scale(0.003, 0.4, 0, 1, logarithmic=True).ticks()
            [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
            >>> Scale(0.8, 2.6, 0, 1, logarithmic=True).ticks()
            [1.0, 1.5, 2.0, 2.5]
        """
        if self.high <= self.low:
            return [self.low]
        if self.logarithmic and self.high / self.low >= 5.0:
            return _log_ticks(self.low, self.high, at_most)
        return _linear_ticks(self.low, self.high, at_most)


def around(
    numbers: Sequence[float] | Floats,
    *,
    logarithmic: bool = False,
    margin: float = 0.05,
    must_hold: Sequence[float] = (),
) -> tuple[float, float]:
    """Returns a range that holds all finite (for a logarithmic axis, positive) numbers with some air.

    Example:
        >>> around([1.0, 2.0, float("nan")], margin=0.0, must_hold=[0.5])
        (0.5, 2.0)
    """
    values = np.concatenate([np.asarray(numbers, dtype=np.float64).ravel(), np.asarray(must_hold, dtype=np.float64)])
    values = values[np.isfinite(values)]
    if logarithmic:
        values = values[values > 0.0]
    if not values.size:
        return (0.1, 1.0) if logarithmic else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if logarithmic:
        air = max((high / low) ** margin, 1.02) if margin else 1.0
        return low / air, high * air
    air = margin * ((high - low) or abs(high) or 1.0)
    return low - air, high + air


def _log_ticks(low: float, high: float, at_most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        inside = [float(f"{tick:.6g}") for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if found and len(inside) > at_most:
            break
        found = inside
    if len(found) > at_most:
        found = found[:: math.ceil(len(found) / at_most)]
    return found


def _linear_ticks(low: float, high: float, at_most: int) -> list[float]:
    rough = (high - low) / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{place * step:.10g}") + 0.0 for place in range(first, last + 1)]
