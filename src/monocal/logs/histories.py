"""What each row's user did before the row: references into the log itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids

Numbers = NDArray[np.int64]

ARRAYS = ("history_order", "history_first", "history_stop")
"""Arrays of an encoded log that hold its histories."""


@final
@dataclass(frozen=True, eq=False)
class Histories:
    """The past of rows, as row numbers of the whole log.

    The past of row i is `order[first[i] : stop[i]]`, oldest first: rows of the same user with a *strictly earlier*
    time. Rows of the same moment, such as the other items of one page, are not in it, for when the row is ranked their
    outcomes are not known. Outcomes that become known only after the next request are: a log does not say when labels
    came.

    Attributes:
        order: Row numbers by user and, for each user, in time order.
        first: Where in `order` the past of each row begins.
        stop: Where it ends.
        features: Ids of the whole log.
        labels: Task to labels of the whole log.
    """

    order: Numbers
    first: Numbers
    stop: Numbers
    features: Ids
    labels: Mapping[str, NDArray[np.int8]]

    def take(self, rows: Any) -> Histories:
        """Returns the past of the chosen rows."""
        return replace(self, first=self.first[rows], stop=self.stop[rows])

    def last(self, rows: Any, n_last: int) -> Numbers:
        """Returns the rows of the last events before each row `(b, n_last)`, newest first; −1 where none is left.

        Arguments:
            rows: Which rows, as a slice or as numbers.
            n_last: How many events to look back.
        """
        places = self.stop[rows][:, None] - 1 - np.arange(n_last)
        known = places >= self.first[rows][:, None]
        events = np.full(places.shape, -1, np.int64)
        events[known] = self.order[places[known]]
        return events
