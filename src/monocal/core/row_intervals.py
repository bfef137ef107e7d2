"""Where the probability of a row lies, from how surely its logit is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats, logit, sigmoid


class LogitVariance(NamedTuple):
    """How surely the calibrated logits of rows are known.

    Attributes:
        parameters: Variance that a row's own parameters leave.
        unexplained: Variance of what the model does not know and the probability is a mean over, the same for all rows.
        slope: Variance of what it does not know and what grows with the distance of the score from its middle.
    """

    parameters: Floats
    unexplained: float
    slope: Floats

    @property
    def variances(self) -> Floats:
        """Of every row's true logit around the calibrated one."""
        return self.parameters + self.unexplained + self.slope


class RowIntervals(NamedTuple):
    """Probabilities with an interval each; `lower <= probabilities <= upper` in every row.

    Of simulated truths .81 to .98 lie inside intervals of 0.9, fewest where errors depend on several columns together.

    Attributes:
        probabilities: The forecast, the same bits as without an interval.
        lower: The lower ends.
        upper: The upper ends.
    """

    probabilities: Floats
    lower: Floats
    upper: Floats


def row_intervals(probabilities: Floats, known: LogitVariance, level: float) -> RowIntervals:
    r"""Returns :math:`\sigma(m \pm q s)` with the normal quantile q of the level, and p where it lies outside.

    A probability that is the mean over logits with variance τ² around m is about
    :math:`\sigma(m / \sqrt{1 + \pi \tau^2 / 8})`, so :math:`m = \mathrm{logit}(p) \sqrt{1 + \pi \tau^2 / 8}`.

    References:
        MacKay. The evidence framework applied to classification networks. 1992.

    Arguments:
        probabilities: The forecast.
        known: s² of every row's logit, and of it the part τ² that is unexplained.
        level: The share of rows whose true probability is meant to lie inside, in (0, 1).

    Example:
        >>> found = row_intervals(np.array([0.1]), LogitVariance(np.array([0.25]), 0.0, np.zeros(1)), 0.9)
        >>> found.lower.round(3).tolist(), found.upper.round(3).tolist()
        ([0.047], [0.202])
    """
    check_level(level)
    z = logit(probabilities) * np.sqrt(1.0 + np.pi * known.unexplained / 8.0)
    reach = float(ndtri(0.5 + 0.5 * level)) * np.sqrt(known.variances)
    lower, upper = sigmoid(z - reach), sigmoid(z + reach)
    # a probability of 0 or 1 has no finite logit, and at a low level the mean may lie beside the middle
    return RowIntervals(probabilities, np.minimum(lower, probabilities), np.maximum(upper, probabilities))


def check_level(level: float) -> None:
    """Refuses a level that is no share."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0.0 < level < 1.0:
        raise InvalidInput.of("interval", repr(level), "a number in (0, 1)", "use 0.9 for nine rows in ten")
