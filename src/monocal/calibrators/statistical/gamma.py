"""Gamma scaling."""

from __future__ import annotations

from typing import final

import numpy as np

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.statistical.binning import Variant, check_variant
from monocal.calibrators.statistical.logistic_solver import solve_logistic
from monocal.calibrators.tags import Tags
from monocal.core.samples import Samples
from monocal.core.spaces import Floats

_SHIFT = 13.0
_SMALLEST, _LARGEST = 1e-4, 26.0


@final
class GammaCalibrator(LogitCalibrator):
    r"""Fits a logarithm and a line in the shifted logit.

    .. math:: p = \sigma(a \ln r + b r + c), \qquad r = z + 13 \in [10^{-4}, 26],\quad a/r + b \ge 0

    The exact posterior when the shifted logits of both classes are gamma-distributed. Increasing inside the
    range because the slope a/r + b is monotone in r and non-negative at both ends; constant outside.

    References:
        Kweon, Kang, Yu. Obtaining calibrated probabilities with personalized ranking models. AAAI 2022.

    Arguments:
        l2: Penalty on a and b beside the summed loss.
        variant: `"authors"` uses the constraint rows of the UMC authors' script, which belong to Gauss scaling.

    Example:
        >>> calibrator = GammaCalibrator().fit([0.1, 0.3, 0.5, 0.6, 0.9], [0, 1, 0, 1, 1])
        >>> calibrator.a_ / 26 + calibrator.b_ >= -1e-9
        True
    """

    name = "gamma"
    class_tags = Tags(monotone="weak", keeps_mean=True)

    def __init__(
        self, *, l2: float = 0.0, variant: Variant = "monocal", recent_share: float = 0.0, guard: bool = False
    ) -> None:
        super().__init__(recent_share=recent_share, guard=guard)
        self.l2 = l2
        self.variant = variant

    def _fit(self, samples: Samples) -> None:
        check_variant(self.variant)
        r = _shifted(samples.logits)
        if self.variant == "authors":
            rows = np.array([[2.0 * _SMALLEST, 1.0, 0.0], [2.0 * _LARGEST, 1.0, 0.0]])
        else:
            rows = np.array([[1.0 / _SMALLEST, 1.0, 0.0], [1.0 / _LARGEST, 1.0, 0.0]])
        a, b, c = solve_logistic(
            np.column_stack([np.log(r), r, np.ones_like(r)]),
            samples.known_labels,
            samples.weights_or_ones,
            l2=np.array([self.l2, self.l2, 0.0]),
            constraints=rows,
        )
        if self.variant == "monocal":
            # rounding may leave the active constraint violated by an ulp; the slope at the ends is made exact
            b = max(b, -a / _LARGEST, -a / _SMALLEST)
        self.a_, self.b_, self.c_ = float(a), float(b), float(c)

    def _predict_logits(self, samples: Samples) -> Floats:
        r = _shifted(samples.logits)
        return self.a_ * np.log(r) + self.b_ * r + self.c_


def _shifted(logits: Floats) -> Floats:
    return np.clip(logits + _SHIFT, _SMALLEST, _LARGEST)
