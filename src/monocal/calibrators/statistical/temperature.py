"""Temperature scaling."""

from __future__ import annotations

from typing import final

import numpy as np

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.statistical.logistic_solver import solve_logistic
from monocal.calibrators.tags import Tags
from monocal.core.samples import Samples
from monocal.ops.operations import Ops, Values

_LARGEST_TEMPERATURE = 1e6


@final
class TemperatureCalibrator(LogitCalibrator):
    r"""Divides logits by one temperature.

    .. math:: p = \sigma(z / T), \qquad T > 0

    Order is kept and 0.5 stays 0.5, so an offset cannot be corrected: for click rates prefer Platt. If the data
    ask for a negative temperature, T is 1,000,000 and the map is all but constant.

    References:
        Guo et al. On calibration of modern neural networks. ICML 2017.

    Example:
        >>> z = np.linspace(-4, 4, 801)
        >>> y = (np.arange(801) * 0.618034) % 1 < 1 / (1 + np.exp(-z / 2))
        >>> round(TemperatureCalibrator().fit(z, y, scores_are="logit").temperature_, 1)
        2.0
    """

    name = "temperature"
    class_tags = Tags(monotone="strict")

    def _fit(self, samples: Samples) -> None:
        (slope,) = solve_logistic(
            samples.logits[:, None], samples.known_labels, samples.weights_or_ones, constraints=np.array([[1.0]])
        )
        self.temperature_ = 1.0 / max(float(slope), 1.0 / _LARGEST_TEMPERATURE)

    def _map(self, _ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return logits / self.temperature_
