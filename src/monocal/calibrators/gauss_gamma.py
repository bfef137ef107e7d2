"""Gauss and gamma scaling: a curve of the logit with two shape parameters, fitted where it rises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.contract import Tags
from monocal.calibrators.logistic import solve_logistic
from monocal.core.dataset import Block, Dataset
from monocal.core.scores import Floats
from monocal.ops.numpy_ops import NUMPY
from monocal.ops.operations import Ops, Values

_LOWEST, _HIGHEST = -13.0, 13.0
"""The logits between which a parabola must rise; beyond, it is constant."""


@final
@dataclass(kw_only=True, eq=False, repr=False)
class Gauss(LogitCalibrator):
    r"""Fits a parabola in the logit that rises over a stated range.

    .. math:: p = \sigma(a z^2 + b z + c), \qquad 2az + b \ge 0 \text{ for } z \in [-13, 13]

    The exact posterior when the logits of both classes are Gaussian with different variances. Beyond the range
    the logit is clipped to its ends, so the map is strictly increasing inside and constant outside. The free
    intercept makes PCOC 1 on the fitting rows.

    References:
        Kweon, Kang, Yu. Obtaining calibrated probabilities with personalized ranking models. AAAI 2022.

    Arguments:
        l2: Penalty on a and b beside the summed loss; 1 reproduces the UMC authors' C = 1.

    Example:
        >>> calibrator = Gauss().fit([0.1, 0.3, 0.5, 0.6, 0.9], [0, 1, 0, 1, 1])
        >>> 2 * calibrator.a_ * -13 + calibrator.b_ >= 0
        True
    """

    name = "gauss"
    class_tags = Tags(monotone="weak", keeps_mean=True)

    l2: float = 0.0

    def _fit(self, data: Dataset) -> None:
        def design(block: Block) -> Floats:
            z = np.clip(block.z, _LOWEST, _HIGHEST)
            return np.column_stack([z**2, z, np.ones_like(z)])

        a, b, c = solve_logistic(
            data,
            design,
            l2=np.array([self.l2, self.l2, 0.0]),
            constraints=np.array([[2.0 * _LOWEST, 1.0, 0.0], [2.0 * _HIGHEST, 1.0, 0.0]]),
        )
        self.a_, self.b_, self.c_ = float(a), float(b), float(c)

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        low, high = _LOWEST, _HIGHEST
        rise = _parabola_rise(self.a_, self.b_, low, high, ops.clip(logits, low, high))
        return rise + (self.a_ * low**2 + self.b_ * low + self.c_)


def _parabola_rise(a: float, b: float, low: float, high: float, z: Values) -> Values:
    """Returns a z² + b z minus its value at `low` as an integral of the slope, so rounding cannot turn it around.

    The slope falls or rises linearly from u ≥ 0 at `low` to v ≥ 0 at `high`; both are cut at 0, which only
    removes what the solver's rounding left below it.
    """
    u, v = max(b + 2.0 * a * low, 0.0), max(b + 2.0 * a * high, 0.0)
    span = high - low
    if v >= u:
        d = z - low
        return d * u + d * (v - u) * d / (2.0 * span)
    left = high - z
    total = 0.5 * (u + v) * span
    return total - (left * v + left * (u - v) * left / (2.0 * span))


_SHIFT = 13.0
_SMALLEST, _LARGEST = 1e-4, 26.0


@final
@dataclass(kw_only=True, eq=False, repr=False)
class Gamma(LogitCalibrator):
    r"""Fits a logarithm and a line in the shifted logit.

    .. math:: p = \sigma(a \ln r + b r + c), \qquad r = z + 13 \in [10^{-4}, 26],\quad a/r + b \ge 0

    The exact posterior when the shifted logits of both classes are gamma-distributed. Increasing inside the
    range because the slope a/r + b is monotone in r and non-negative at both ends; constant outside.

    References:
        Kweon, Kang, Yu. Obtaining calibrated probabilities with personalized ranking models. AAAI 2022.

    Arguments:
        l2: Penalty on a and b beside the summed loss.

    Example:
        >>> calibrator = Gamma().fit([0.1, 0.3, 0.5, 0.6, 0.9], [0, 1, 0, 1, 1])
        >>> calibrator.a_ / 26 + calibrator.b_ >= -1e-9
        True
    """

    name = "gamma"
    class_tags = Tags(monotone="weak", keeps_mean=True)

    l2: float = 0.0

    def _fit(self, data: Dataset) -> None:
        rows = np.array([[1.0 / _SMALLEST, 1.0, 0.0], [1.0 / _LARGEST, 1.0, 0.0]])
        a, b, c = solve_logistic(data, _design, l2=np.array([self.l2, self.l2, 0.0]), constraints=rows)
        # rounding may leave the active constraint violated by an ulp; the slope at the ends is made exact
        self.a_, self.b_, self.c_ = float(a), float(max(b, -a / _LARGEST, -a / _SMALLEST)), float(c)

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return _increasing_sum(ops, self.a_, self.b_, _shifted(ops, logits)) + self.c_


def _design(block: Block) -> Floats:
    r = _shifted(NUMPY, block.z)
    return np.column_stack([np.log(r), r, np.ones_like(r)])


def _shifted(ops: Ops, logits: Values) -> Values:
    return ops.clip(ops.rounded(logits + _SHIFT), _SMALLEST, _LARGEST)


def _increasing_sum(ops: Ops, a: float, b: float, r: Values) -> Values:
    """Returns a ln r + b r as a sum of terms that rise with r, if its slope is nowhere negative.

    With one sign against the other, the falling term is taken together with as much of the rising one as it needs
    to be flat at the end of the range and to rise before it: for a < 0 that is |a| (d − ln(1 + d)) with
    d = r / 10⁻⁴ − 1, for b < 0 it is 26 |b| (ln(1 − d) + d) with d = 1 − r / 26.
    """
    if a < 0.0:
        d = (r - _SMALLEST) / _SMALLEST
        rest = max(b + a / _SMALLEST, 0.0)
        return r * rest - (d - ops.log1p(d)) * a - a * (1.0 - float(np.log(_SMALLEST)))
    if b < 0.0:
        d = (_LARGEST - r) / _LARGEST
        rest = max(a + b * _LARGEST, 0.0)
        flat = -b * _LARGEST
        return ops.log(r) * rest - (-ops.log1p(-d) - d) * flat + flat * (float(np.log(_LARGEST)) - 1.0)
    return ops.log(r) * a + r * b
