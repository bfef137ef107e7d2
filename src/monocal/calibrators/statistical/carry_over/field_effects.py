"""What each field adds on each row, worked out for a block of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.statistical.compiled_loops import loop_for
from monocal.calibrators.statistical.contributions import Contributions
from monocal.core.samples import Ids
from monocal.core.spaces import Floats


@final
@dataclass(frozen=True)
class FieldEffects:
    """The shift of every row's value of every field, looked up whenever rows are asked for.

    Written down, the shifts of 21 fields would be 168 bytes a row, twice as much as the ids.

    Attributes:
        features: Field ids `(n, F)`.
        shifts: Of all ids, field after field.
        offsets: Where each field starts among them.

    Example:
        >>> ids = np.array([[1, 0], [2, 1], [1, 1]], dtype=np.int32)
        >>> effects = FieldEffects(ids, np.array([0.0, 0.5, -0.2, 0.0, 0.3]), np.array([0, 3, 5]))
        >>> effects[1:3].tolist()
        [[-0.2, 0.3], [0.5, 0.3]]
    """

    features: Ids
    shifts: Floats
    offsets: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.features.shape)

    def __getitem__(self, rows: slice, /) -> Floats:
        ids = np.ascontiguousarray(self.features[rows])
        found = np.empty(ids.shape)
        loop_for(self.features.shape[0] * ids.shape[1], write_effects, "monocal.compiled.wide")(
            ids, self.shifts, self.offsets, found
        )
        return found


def write_effects(features: Ids, shifts: Floats, offsets: NDArray[np.int64], found: Floats) -> None:
    """What `monocal.compiled.wide` does, by numpy."""
    for field, offset in enumerate(offsets[:-1]):
        found[:, field] = shifts[offset + features[:, field]]


@final
@dataclass(frozen=True)
class Stretches:
    """Rows of several contributions, one stretch after the other, as if they were one matrix.

    Attributes:
        pieces: The contributions and which of their rows follow.

    Example:
        >>> first, second = np.array([[1.0], [2.0], [3.0]]), np.array([[7.0], [8.0]])
        >>> both = Stretches([(first, slice(1, 3)), (second, slice(0, 2))])
        >>> both[1:3].ravel().tolist(), both.shape
        ([3.0, 7.0], (4, 1))
    """

    pieces: Sequence[tuple[Contributions, slice]]

    @property
    def shape(self) -> tuple[int, ...]:
        return sum(rows.stop - rows.start for _, rows in self.pieces), self.pieces[0][0].shape[1]

    def __getitem__(self, rows: slice, /) -> Floats:
        first, stop, _ = rows.indices(self.shape[0])
        found, begin = [], 0
        for contributions, own in self.pieces:
            end = begin + own.stop - own.start
            if begin < stop and end > first:
                ahead = own.start - begin
                found.append(contributions[ahead + max(first, begin) : ahead + min(stop, end)])
            begin = end
        if not found:
            return np.empty((0, self.shape[1]))
        return found[0] if len(found) == 1 else np.concatenate(found)
