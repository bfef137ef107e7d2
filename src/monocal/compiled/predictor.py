"""What every compiled predictor offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.folded_net import FoldedNet
from monocal.compiled.jit import scalar

AS_IT_IS = np.array([1.0, 0.0, 1.0, 0.0])
"""The line that changes nothing; see `FoldedPredictor.score`."""


@scalar
def on_line(logit: float, line: Any) -> Any:
    """Returns where a logit starts: its place on the straight line."""
    return line[0] * logit + line[1]


@scalar
def mixed(start: float, value: float, line: Any) -> Any:
    """Returns the curve's value as far as it is believed, else the line's, and the shift of all rows."""
    return (1.0 - line[2]) * start + line[2] * value + line[3]


class FoldedPredictor(ABC):
    """Turns logits and field ids into calibrated logits on numpy arrays: no torch, one thread.

    A row's result does not depend on the other rows of the call, to the last bit. Calls from several threads are
    safe: nothing is kept between them.
    """

    def __init__(self, net: FoldedNet) -> None:
        self.net = net
        self._n_fields = net.n_fields

    @final
    def score(
        self, logits: NDArray[Any], field_ids: NDArray[Any], line: NDArray[np.float64] = AS_IT_IS
    ) -> NDArray[np.float64]:
        r"""Returns calibrated logits `(n,)` for logits `(n,)` and ids `(n, F)`; ids that a field lacks count as 0.

        .. math:: s = a t + c, \qquad y = (1 - m) s + m f(s, x) + d

        Arguments:
            logits: The ranker's logits.
            field_ids: Ids of the field values.
            line: The numbers a, c, m and d.
        """
        t = np.ascontiguousarray(logits, np.float64)
        rows = np.ascontiguousarray(field_ids, np.int32)
        if t.ndim != 1 or rows.shape != (*t.shape, self._n_fields):
            raise ValueError(f"ids have shape {rows.shape}, expected {(*t.shape[:1], self._n_fields)}")
        out = np.empty(t.shape)
        self.write(t, rows, line, out)
        return out

    @final
    def warm_up(self) -> None:
        """Compiles or loads the loops now instead of at the first request."""
        self.score(np.zeros(1), np.zeros((1, self._n_fields), np.int32))

    @abstractmethod
    def write(
        self,
        logits: NDArray[np.float64],
        field_ids: NDArray[np.int32],
        line: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None:
        """Writes what `score` returns into `out`, without looking at the arrays' shapes."""
