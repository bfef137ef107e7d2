"""The same rows many times over: replicates in which only the labels or only the weights change.

Noise floors redraw labels, bootstrap intervals redraw weights. Both leave the predictions alone, so whatever depends on
predictions (the bin of a row, its rank, its grid point) is worked out once and kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.metrics.forecast import Forecast

S = TypeVar("S")
Rows = NDArray[np.intp]
Blocks = NDArray[np.integer[Any]]


class Replay(ABC, Generic[S]):
    """Rows prepared for replicates."""

    @final
    def relabelled(self, positive_rows: Rows) -> S:
        """Returns the state if exactly these rows had label 1."""
        return self._relabelled(positive_rows)

    @final
    def reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[S]:
        """Yields one state per row of `counts`: a row of the forecast in block b counts `counts[r, b]` times more.

        Arguments:
            blocks: The block of each row, `(n,)`.
            counts: How often each block was drawn in each replicate, `(n_replicates, n_blocks)`.
        """
        return self._reweighted(blocks, counts)

    @abstractmethod
    def _relabelled(self, positive_rows: Rows) -> S: ...

    @abstractmethod
    def _reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[S]: ...


@final
class FromScratch(Replay[S]):
    """Summarizes all rows again in every replicate: right for any metric, fast for none."""

    def __init__(self, summarize: Callable[[Forecast], S], forecast: Forecast) -> None:
        self._summarize, self._forecast = summarize, forecast

    def _relabelled(self, positive_rows: Rows) -> S:
        labels = np.zeros(self._forecast.n_rows)
        labels[positive_rows] = 1.0
        return self._summarize(self._forecast.with_labels(labels))

    def _reweighted(self, blocks: Blocks, counts: Floats) -> Iterator[S]:
        weights = self._forecast.weights
        for count in counts:
            drawn = count[blocks]
            yield self._summarize(self._forecast.with_weights(drawn if weights is None else weights * drawn))
