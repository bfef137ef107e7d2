"""What every compiled predictor offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.kernels.folded_net import FoldedNet


class FoldedPredictor(ABC):
    """Turns logits and field ids into calibrated logits on numpy arrays: no torch, one thread.

    A row's result does not depend on the other rows of the call, to the last bit. Calls from several threads are
    safe: nothing is kept between them.
    """

    def __init__(self, net: FoldedNet) -> None:
        self.net = net
        self._n_fields = net.n_fields

    @final
    def score(self, logits: NDArray[Any], field_ids: NDArray[Any]) -> NDArray[np.float64]:
        """Returns calibrated logits `(n,)` for logits `(n,)` and ids `(n, F)`; ids that a field lacks count as 0."""
        t = np.ascontiguousarray(logits, np.float64)
        rows = np.ascontiguousarray(field_ids, np.int32)
        if t.ndim != 1 or rows.shape != (*t.shape, self._n_fields):
            raise ValueError(f"ids have shape {rows.shape}, wanted {(*t.shape[:1], self._n_fields)}")
        out = np.empty(t.shape)
        self._score(t, rows, out)
        return out

    @final
    def warm_up(self) -> None:
        """Compiles or loads the loops now instead of at the first request."""
        self.score(np.zeros(1), np.zeros((1, self._n_fields), np.int32))

    @abstractmethod
    def _score(self, logits: NDArray[np.float64], field_ids: NDArray[np.int32], out: NDArray[np.float64]) -> None:
        """Writes calibrated logits into `out`."""
