"""Gauss scaling."""

from __future__ import annotations

from typing import final

import numpy as np

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.statistical.logistic_solver import solve_logistic
from monocal.calibrators.tags import Tags
from monocal.core.errors import InvalidInput
from monocal.core.samples import Samples
from monocal.ops.operations import Ops, Values


@final
class GaussCalibrator(LogitCalibrator):
    r"""Fits a parabola in the logit that rises over a stated range.

    .. math:: p = \sigma(a z^2 + b z + c), \qquad 2az + b \ge 0 \text{ for } z \in [z_{min}, z_{max}]

    The exact posterior when the logits of both classes are Gaussian with different variances. Beyond the range
    the logit is clipped to its ends, so the map is strictly increasing inside and constant outside. The free
    intercept makes PCOC 1 on the fitting rows.

    References:
        Kweon, Kang, Yu. Obtaining calibrated probabilities with personalized ranking models. AAAI 2022.

    Arguments:
        lowest_logit: Left end of the range.
        highest_logit: Right end of the range.
        l2: Penalty on a and b beside the summed loss; 1 reproduces the UMC authors' C = 1.

    Example:
        >>> calibrator = GaussCalibrator().fit([0.1, 0.3, 0.5, 0.6, 0.9], [0, 1, 0, 1, 1])
        >>> 2 * calibrator.a_ * -13 + calibrator.b_ >= 0
        True
    """

    name = "gauss"
    class_tags = Tags(monotone="weak", keeps_mean=True)

    def __init__(
        self,
        *,
        lowest_logit: float = -13.0,
        highest_logit: float = 13.0,
        l2: float = 0.0,
        recent_share: float = 0.0,
        guard: bool = False,
    ) -> None:
        super().__init__(recent_share=recent_share, guard=guard)
        self.lowest_logit = lowest_logit
        self.highest_logit = highest_logit
        self.l2 = l2

    def _fit(self, samples: Samples) -> None:
        if not self.lowest_logit < self.highest_logit:
            raise InvalidInput.of(
                "lowest_logit", self.lowest_logit, f"less than highest_logit = {self.highest_logit}", "swap them"
            )
        z = np.clip(samples.logits, self.lowest_logit, self.highest_logit)
        a, b, c = solve_logistic(
            np.column_stack([z**2, z, np.ones_like(z)]),
            samples.known_labels,
            samples.weights_or_ones,
            l2=np.array([self.l2, self.l2, 0.0]),
            constraints=np.array([[2.0 * self.lowest_logit, 1.0, 0.0], [2.0 * self.highest_logit, 1.0, 0.0]]),
        )
        self.a_, self.b_, self.c_ = float(a), float(b), float(c)

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        low, high = self.lowest_logit, self.highest_logit
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
