"""The call by which a service scores one request."""

from __future__ import annotations

from typing import Protocol

from monocal.core.samples import Ids
from monocal.core.spaces import Floats


class RowScorer(Protocol):
    """A fitted calibrator as one function, for thousands of small calls a second.

    Rows were checked already: finite logits after the sampling correction, ids ≥ 0 in the field order of `fit`
    (ids that were not there count as unseen). A row's answer depends on that row alone: neither on the rows beside
    it nor on how many there are. Hence offline and online numbers agree to the last bit.
    """

    def __call__(self, logits: Floats, ids: Ids, /) -> Floats:
        """Returns probabilities.

        Arguments:
            logits: One per row, float64.
            ids: Field ids `(n, F)`, int32, C-contiguous; F = 0 for a model without fields.
        """
        ...
