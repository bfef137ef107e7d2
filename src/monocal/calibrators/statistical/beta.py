"""Beta calibration."""

from __future__ import annotations

from typing import final

import numpy as np

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.calibrators.statistical.logistic_solver import solve_logistic
from monocal.calibrators.tags import Tags
from monocal.core.samples import Samples
from monocal.core.spaces import Floats, round_logits


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
        design = np.column_stack([*_log_parts(samples.logits), np.ones(samples.n_rows)])
        a, b, c = solve_logistic(design, samples.known_labels, samples.weights_or_ones, constraints=np.eye(3)[:2])
        self.a_, self.b_, self.c_ = max(float(a), 0.0), max(float(b), 0.0), float(c)

    def _predict_logits(self, samples: Samples) -> Floats:
        log_score, minus_log_rest = _log_parts(samples.logits)
        return self.a_ * log_score + self.b_ * minus_log_rest + self.c_

    def _write_onnx(self, graph: GraphBuilder, logits: str, _features: str) -> str:
        log_score = graph.apply("Neg", graph.softplus(graph.apply("Neg", logits)))
        both = graph.add(graph.multiply(log_score, self.a_), graph.multiply(graph.softplus(logits), self.b_))
        return graph.add(both, self.c_)


def _log_parts(logits: Floats) -> tuple[Floats, Floats]:
    """Returns ln s and −ln(1 − s), both increasing in the logit, in float64, too, and exact at both ends.

    `logaddexp` would add a falling correction to a rising number and fall by a unit in the last place here and
    there; logits are at most 40, so nothing overflows without it.
    """
    z = round_logits(logits)
    return -np.log1p(np.exp(-z)), np.log1p(np.exp(z))
