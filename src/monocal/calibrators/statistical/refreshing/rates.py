"""How fast effects move: walks and shocks that are tried side by side and believed as they predicted the next rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.spaces import Floats

_WALKS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
_SHOCKS = (0.0, 0.1, 0.3, 0.8)

WALKS, SHOCKS = (column.ravel() for column in np.meshgrid(_WALKS, _SHOCKS, indexing="ij"))
"""Standard deviations in logits, one pair per candidate: of the lasting step of an effect from one refresh to the next,
and of what is over by the next."""

EVIDENCE_KEPT = 0.95
"""Share of earlier evidence that still counts at the next refresh, so that rates themselves may change."""

_PRIOR = -WALKS / 0.04 - SHOCKS / 0.3
"""Before anything was seen. Real levels swing from week to week more than they drift; the scales were chosen on two
draws of a simulated drifting world."""


@final
@dataclass(frozen=True)
class Rates:
    """What is believed of the movement of each part, as variances per refresh.

    Attributes:
        walk: Of the lasting step.
        shock: Of what is over by the next refresh.
    """

    walk: Floats
    shock: Floats


def believed_rates(evidence: Floats) -> Rates:
    """Returns variances averaged over the candidates, weighted by how well each predicted so far.

    Arguments:
        evidence: Logarithms of one-step-ahead predictive densities, `(candidates, parts)`.

    Example:
        Without evidence little is expected to last, and more to be over by the next refresh.

        >>> rates = believed_rates(np.zeros((WALKS.size, 1)))
        >>> float(np.sqrt(rates.walk[0]).round(3)), float(np.sqrt(rates.shock[0]).round(3))
        (0.032, 0.198)
    """
    weights = believed_shares(evidence)
    return Rates(WALKS**2 @ weights, SHOCKS**2 @ weights)


def believed_shares(evidence: Floats) -> Floats:
    """Returns how much each candidate is believed, `(candidates, parts)`; every column adds up to 1."""
    weights = _PRIOR[:, None] + evidence
    weights = np.exp(weights - weights.max(axis=0))
    result: Floats = weights / weights.sum(axis=0)
    return result
