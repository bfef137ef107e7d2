"""Platt scaling."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, final

import numpy as np

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.statistical.logistic_solver import solve_logistic
from monocal.calibrators.statistical.refreshing import centred, known_at_fit, refresh_effects, resumed
from monocal.calibrators.tags import Tags
from monocal.core.errors import InvalidInput
from monocal.core.samples import Samples
from monocal.ops.operations import Ops, Values

_NO_FIELDS = np.zeros(1, dtype=np.int64)


@final
class PlattCalibrator(LogitCalibrator):
    r"""Rescales logits by one slope and one intercept.

    .. math:: p = \sigma(a z + b), \qquad a \ge 0

    Order is kept, so AUC stays the ranker's. The intercept is free, so the mean prediction equals the observed
    rate on the fitting data: PCOC there is exactly 1. If higher scores go with fewer positives, a = 0 and the
    map is constant.

    References:
        Platt. Probabilistic outputs for support vector machines. 1999.

    Arguments:
        l2: Penalty :math:`\tfrac12 \lambda a^2` beside the summed loss; 1 reproduces the UMC authors' C = 1.
        targets: `"labels"`, or `"platt"` for his smoothed targets :math:`(N_+ + 1)/(N_+ + 2)`, :math:`1/(N_- + 2)`.
        max_iterations: Newton steps allowed; a fit that needs more warns with the last gradient.

    Example:
        >>> z = np.linspace(-2, 2, 401)
        >>> y = (np.arange(401) * 0.618034) % 1 < 1 / (1 + np.exp(-(2 * z - 1)))
        >>> calibrator = PlattCalibrator().fit(z, y, scores_are="logit")
        >>> round(calibrator.slope_, 1), round(calibrator.intercept_, 1)
        (2.0, -1.0)
    """

    name = "platt"
    class_tags = Tags(monotone="strict", keeps_mean=True)

    def __init__(
        self,
        *,
        l2: float = 0.0,
        targets: Literal["labels", "platt"] = "labels",
        max_iterations: int = 100,
        recent_share: float = 0.0,
        guard: bool = False,
    ) -> None:
        super().__init__(recent_share=recent_share, guard=guard)
        self.l2 = l2
        self.targets = targets
        self.max_iterations = max_iterations

    def _fit(self, samples: Samples) -> None:
        y, w = samples.known_labels, samples.weights_or_ones
        if self.targets == "platt":
            n_positive, n_negative = float(w @ y), float(w @ (1.0 - y))
            y = np.where(y == 1.0, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))
        elif self.targets != "labels":
            raise InvalidInput.of("targets", repr(self.targets), '"labels" or "platt"', "choose one of the two")
        design = np.column_stack([samples.logits, np.ones(samples.n_rows)])
        slope, intercept = solve_logistic(
            design,
            y,
            w,
            l2=np.array([self.l2, 0.0]),
            constraints=np.array([[1.0, 0.0]]),
            max_iterations=self.max_iterations,
        )
        self.slope_, self.intercept_ = max(float(slope), 0.0), float(intercept)
        nothing = np.zeros((samples.n_rows, 0), dtype=np.int32), _NO_FIELDS, np.zeros(0)
        self.posterior_ = known_at_fit(self._predict_logits(samples), samples, *nothing)

    def _refresh(self, samples: Samples) -> None:
        samples = replace(samples, features=None)
        known, shifts, offsets = resumed(vars(self).get("posterior_"), self.name, samples, np.zeros(0), _NO_FIELDS)
        logits = self._predict_logits(samples) + self.recent_shift_
        columns, centre = centred(samples.logits, logits, samples.weights_or_ones)
        found = refresh_effects(logits, samples, columns, shifts, offsets, known)
        level, slope = (float(number) for number in found.single)
        slope = max(slope, -self.slope_)
        self.slope_ += slope
        self.intercept_ += level - slope * centre
        self.posterior_ = found.posterior.as_arrays()
        self.moved_ = found.facts(shifts, offsets, "slope")

    def _map(self, _ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return logits * self.slope_ + self.intercept_
