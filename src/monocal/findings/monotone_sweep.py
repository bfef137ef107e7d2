"""Sweeping the score through a fitted calibrator: does a higher score ever get a lower probability?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from monocal.calibrators import Calibrator
from monocal.core.monotonicity import NotMonotone, assert_monotone, probe_logits
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats


@final
@dataclass(frozen=True)
class MonotoneSweep:
    """What a sweep found.

    Attributes:
        guarantee: What the calibrator's tags say: `strict`, `weak` or `none`.
        n_contexts: Feature rows that were swept.
        n_steps: Steps from one score to the next higher one, some between neighbouring floating-point numbers.
        n_ties: Steps that left the probability as it was; only known when nothing fell.
        fall: What was found falling, in words; empty when nothing fell.
    """

    guarantee: str
    n_contexts: int
    n_steps: int
    n_ties: int
    fall: str

    @property
    def holds(self) -> bool:
        """Whether no higher score got a lower probability."""
        return not self.fall


def sweep_monotone(calibrator: Calibrator, contexts: Ids | None) -> MonotoneSweep:
    """Raises the score step by step for each feature row, over the whole range and along chains of neighbouring floats.

    Arguments:
        calibrator: A fitted calibrator.
        contexts: Feature rows `(k, F)`; None for a calibrator without features.
    """
    probes = probe_logits()
    n_contexts = 1 if contexts is None else len(contexts)
    n_steps = n_contexts * (probes.shape[0] - 1)

    def predict(logits: Floats, features: Any) -> Floats:
        return calibrator.predict_samples(Samples(logits, features=features))

    try:
        found = assert_monotone(predict, contexts, logits=probes)
    except NotMonotone as error:
        return MonotoneSweep(calibrator.tags.monotone, n_contexts, n_steps, 0, str(error))
    return MonotoneSweep(calibrator.tags.monotone, n_contexts, n_steps, found.n_ties, "")
