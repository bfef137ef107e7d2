"""Beta calibration."""

from __future__ import annotations

from typing import final

import numpy as np

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.statistical.logistic_solver import solve_logistic
from monocal.calibrators.tags import Tags
from monocal.core.samples import Samples
from monocal.ops.numpy_ops import NUMPY
from monocal.ops.operations import Ops, Values


@final
class BetaCalibrator(LogitCalibrator):
    r"""Bends the two ends of the score independently.

    .. math:: p = \sigma(a \ln s - b \ln(1-s) + c), \qquad a, b \ge 0

    The exact posterior when the scores of both classes are beta-distributed; contains Platt (a = b). Strictly
    increasing unless a = b = 0; logits less than 2e-13 apart count as equal. The free intercept makes PCOC 1 on the
    fitting rows.

    References:
        Kull, Silva Filho, Flach. Beta calibration. AISTATS 2017.

    Example:
        >>> s = np.tile([0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99], 2)
        >>> truth = s**2 / (s**2 + (1 - s) ** 0.5)
        >>> calibrator = BetaCalibrator().fit(
        ...     s, np.repeat([0, 1], 7), weights=np.where(np.arange(14) < 7, 1 - truth, truth)
        ... )
        >>> round(calibrator.a_, 3), round(calibrator.b_, 3), abs(round(calibrator.c_, 3))
        (2.0, 0.5, 0.0)
    """

    name = "beta"
    class_tags = Tags(monotone="strict", keeps_mean=True)

    def _fit(self, samples: Samples) -> None:
        design = np.column_stack([*_log_parts(NUMPY, samples.logits), np.ones(samples.n_rows)])
        a, b, c = solve_logistic(design, samples.known_labels, samples.weights_or_ones, constraints=np.eye(3)[:2])
        self.a_, self.b_, self.c_ = max(float(a), 0.0), max(float(b), 0.0), float(c)

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        log_score, minus_log_rest = _log_parts(ops, logits)
        return log_score * self.a_ + minus_log_rest * self.b_ + self.c_


def _log_parts(ops: Ops, logits: Values) -> tuple[Values, Values]:
    """Returns ln s and −ln(1 − s), both increasing in the logit, in float64, too, and exact at both ends.

    `logaddexp` would add a falling correction to a rising number and fall by a unit in the last place here and
    there; logits are at most 40, so nothing overflows without it.
    """
    z = ops.rounded(logits)
    return -ops.softplus(-z), ops.softplus(z)
