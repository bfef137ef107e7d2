"""Methods that move the logit by two or three numbers: none at all, Platt scaling, a temperature, beta calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.contract import Tags
from monocal.calibrators.logistic import score_and_one, solve_logistic
from monocal.core.dataset import Block, Dataset
from monocal.core.scores import Floats
from monocal.ops.numpy_ops import NUMPY
from monocal.ops.operations import Ops, Values
from monocal.wide.intervals import posterior_at_fit
from monocal.wide.refresh import centred, refresh_effects, restore


@final
class Uncalibrated(LogitCalibrator):
    """Leaves the score as it is (after the sampling correction, if a rate is given).

    The bar that every other method has to clear.

    Example:
        >>> Uncalibrated().fit([0.2, 0.7], [0, 1]).predict([0.3]).round(6).tolist()
        [0.3]
    """

    name = "none"
    class_tags = Tags(monotone="strict")

    def _fit(self, data: Dataset) -> None:
        pass

    def _map(self, _ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return logits


@final
@dataclass(kw_only=True, eq=False, repr=False)
class Platt(LogitCalibrator):
    r"""Rescales logits by one slope and one intercept.

    .. math:: p = \sigma(a z + b), \qquad a \ge 0

    Order is kept, so AUC stays the ranker's. The intercept is free, so the mean prediction equals the observed
    rate on the fitting data: PCOC there is exactly 1. If higher scores go with fewer positives, a = 0 and the
    map is constant.

    References:
        Platt. Probabilistic outputs for support vector machines. 1999.

    Arguments:
        l2: Penalty :math:`\tfrac12 \lambda a^2` beside the summed loss; 1 reproduces the UMC authors' C = 1.

    Example:
        >>> z = np.linspace(-2, 2, 401)
        >>> y = (np.arange(401) * 0.618034) % 1 < 1 / (1 + np.exp(-(2 * z - 1)))
        >>> calibrator = Platt().fit(z, y, scores_are="logit")
        >>> round(calibrator.slope_, 1), round(calibrator.intercept_, 1)
        (2.0, -1.0)
    """

    name = "platt"
    class_tags = Tags(monotone="strict", keeps_mean=True)

    l2: float = 0.0

    def _fit(self, data: Dataset) -> None:
        rows = data.without_fields()
        penalty, rising = np.array([self.l2, 0.0]), np.array([[1.0, 0.0]])
        slope, intercept = solve_logistic(rows, score_and_one, l2=penalty, constraints=rising)
        self.slope_, self.intercept_ = max(float(slope), 0.0), float(intercept)
        self.posterior_ = posterior_at_fit(self._predict_logits(rows), rows, np.zeros(0))

    def _refresh(self, data: Dataset) -> None:
        data = data.without_fields()
        known = restore(self.posterior_, data, np.zeros(0), data.fields)
        logits = self._predict_logits(data) + self.recent_shift_
        columns, centre = centred(data.z, logits, data.weights)
        found = refresh_effects(logits, data, columns, known)
        level, slope = (float(number) for number in found.single)
        slope = max(slope, -self.slope_)
        self.slope_ += slope
        self.intercept_ += level - slope * centre
        self.posterior_ = found.posterior.as_arrays()
        self.last_update_ = found.facts(known, "slope")

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {"slope_": self.slope_}

    def _map(self, _ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return logits * self.slope_ + self.intercept_


_LARGEST_TEMPERATURE = 1e6


@final
class Temperature(LogitCalibrator):
    r"""Divides logits by one temperature.

    .. math:: p = \sigma(z / T), \qquad T > 0

    Order is kept and 0.5 stays 0.5, so an offset cannot be corrected: for click rates prefer Platt. If the data
    ask for a negative temperature, T is 1,000,000 and the map is all but constant.

    References:
        Guo et al. On calibration of modern neural networks. ICML 2017.

    Example:
        >>> z = np.linspace(-4, 4, 801)
        >>> y = (np.arange(801) * 0.618034) % 1 < 1 / (1 + np.exp(-z / 2))
        >>> round(Temperature().fit(z, y, scores_are="logit").temperature_, 1)
        2.0
    """

    name = "temperature"
    class_tags = Tags(monotone="strict")

    def _fit(self, data: Dataset) -> None:
        (slope,) = solve_logistic(data, lambda block: block.z[:, None], constraints=np.array([[1.0]]))
        self.temperature_ = 1.0 / max(float(slope), 1.0 / _LARGEST_TEMPERATURE)

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {"temperature_": self.temperature_}

    def _map(self, _ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return logits / self.temperature_


@final
class Beta(LogitCalibrator):
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
        >>> calibrator = Beta().fit(
        ...     s, np.repeat([0, 1], 7), weights=np.where(np.arange(14) < 7, 1 - truth, truth)
        ... )
        >>> round(calibrator.a_, 3), round(calibrator.b_, 3), abs(round(calibrator.c_, 3))
        (2.0, 0.5, 0.0)
    """

    name = "beta"
    class_tags = Tags(monotone="strict", keeps_mean=True)

    def _fit(self, data: Dataset) -> None:
        a, b, c = solve_logistic(data, _log_design, constraints=np.eye(3)[:2])
        self.a_, self.b_, self.c_ = max(float(a), 0.0), max(float(b), 0.0), float(c)

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        return {"a_": self.a_, "b_": self.b_}

    def _map(self, ops: Ops, logits: Values, _ids: Values | None) -> Values:
        log_score, minus_log_rest = _log_parts(ops, logits)
        return log_score * self.a_ + minus_log_rest * self.b_ + self.c_


def _log_design(block: Block) -> Floats:
    return np.column_stack([*_log_parts(NUMPY, block.z), np.ones(len(block))])


def _log_parts(ops: Ops, logits: Values) -> tuple[Values, Values]:
    """Returns ln s and −ln(1 − s), both increasing in the logit, in float64, too, and exact at both ends.

    `logaddexp` would add a falling correction to a rising number and fall by a unit in the last place here and
    there; logits are at most 40, so nothing overflows without it.
    """
    z = ops.rounded(logits)
    return -ops.softplus(-z), ops.softplus(z)
