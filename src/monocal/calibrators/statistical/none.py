"""The uncalibrated score, as a method among the others."""

from __future__ import annotations

from typing import final

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.tags import Tags
from monocal.core.samples import Samples
from monocal.ops.operations import Ops, Values


@final
class NoneCalibrator(LogitCalibrator):
    """Leaves the score as it is (after the sampling correction, if a rate is given).

    The bar that every other method has to clear.

    Example:
        >>> NoneCalibrator().fit([0.2, 0.7], [0, 1]).predict([0.3]).round(6).tolist()
        [0.3]
    """

    name = "none"
    class_tags = Tags(monotone="strict")

    def _fit(self, samples: Samples) -> None:
        pass

    def _map(self, _ops: Ops, logits: Values, _ids: Values | None) -> Values:
        return logits
