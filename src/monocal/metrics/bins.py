"""Equal-width bins of the predicted probability, and what metrics over them have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.metrics.base import Metric, Summary, check_positive_count
from monocal.metrics.forecast import Forecast, IdColumn
from monocal.metrics.sums import Sums, SumSummary, Term, cell_terms

Precision = Literal["double", "single"]


@final
@dataclass(frozen=True)
class BinSums(SumSummary):
    r"""Cell sums over bins :math:`[k/M, (k+1)/M)`; a prediction of exactly 1 has a bin of its own.

    The bin of a row is :math:`\lfloor p M \rfloor`, computed in double precision.

    Arguments:
        bins: M, the number of bins below 1.
        precision: "single" multiplies in float32 instead, which moves a few predictions that sit on an edge
            (0.29 · 100 is 28.99… in double and 29 in single precision); for comparing with float32 evaluators.

    Example:
        >>> state = BinSums(100).summarize(Forecast.of([1, 1, 0], [1.0, 0.995, 0.995]))
        >>> np.flatnonzero(state["weight"]).tolist()
        [99, 100]
    """

    bins: int = 100
    precision: Precision = "double"

    def __post_init__(self) -> None:
        check_positive_count("bins", self.bins)
        if self.precision not in ("double", "single"):
            raise InvalidInput.of("precision", repr(self.precision), '"double" or "single"', "leave it out")

    def _terms(self, forecast: Forecast) -> tuple[Term, ...]:
        return cell_terms(forecast.probabilities, self.bin_of(forecast.probabilities), self.bins + 1)

    def bin_of(self, probabilities: Floats) -> IdColumn:
        """Returns the bin of each prediction, 0 … M."""
        if self.precision == "single":
            return (probabilities.astype(np.float32) * np.float32(self.bins)).astype(np.int32)
        return (probabilities * self.bins).astype(np.int32)


@dataclass(frozen=True)
class BinnedMetric(Metric[Sums]):
    """A metric over equal-width bins; a subclass writes `_value`.

    Arguments:
        bins: Number of bins.
        precision: "single" bins in float32, for parity with float32 evaluators.
    """

    bins: int = 100
    precision: Precision = "double"

    def __post_init__(self) -> None:
        self._summary()  # checks the options when they are given, not when they are used

    @final
    def _summary(self) -> Summary[Sums]:
        return BinSums(self.bins, self.precision)
