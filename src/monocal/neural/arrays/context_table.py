"""Vectors of field values, looked up without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids

Weights = dict[str, NDArray[Any]]


@final
@dataclass(frozen=True)
class ContextTable:
    """A context encoder as arrays.

    Attributes:
        table: One vector per slot.
        slots: For every id, field after field, its row in the table.
        offsets: Where each field starts in `slots`; the last entry is the total.
    """

    table: NDArray[np.float32]
    slots: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, weights: Weights) -> ContextTable | None:
        """Finds the encoder among a calibrator's weights, if it has one."""
        if "encoder.table" not in weights:
            return None
        return cls(*(weights[f"encoder.{name}"] for name in ("table", "slots", "offsets")))

    def look_up(self, features: Ids) -> NDArray[np.float32]:
        """Returns context rows `(n, F * d)`; ids that a field does not have count as id 0."""
        places = np.where(features < np.diff(self.offsets), features, 0) + self.offsets[:-1]
        rows = self.slots[places]
        result: NDArray[np.float32] = self.table[rows].reshape(rows.shape[0], -1)
        return result

    def vectors(self) -> NDArray[np.float32]:
        """Returns one vector per id instead of per slot."""
        result: NDArray[np.float32] = self.table[self.slots]
        return result
