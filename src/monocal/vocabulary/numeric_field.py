"""A field of numbers: its knots, and numbers to ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.numeric_ids import ids_of_numbers, learn_knots, n_numeric_ids, numbers_of_ids
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.tables.columns import numbers_or_nan
from monocal.tables.encoded_column import EncodedColumn


@final
@dataclass(frozen=True)
class NumericField:
    """The knots of one field of numbers; see `monocal.core.numeric_ids` for the ids between them.

    Nulls and NaN are a value of their own. Numbers beyond the outer knots count as the knot.

    Arguments:
        name: The field.
        knots: Rising numbers.

    Example:
        >>> price = NumericField("price", (1.0, 2.0))
        >>> price.encode(pa.array([1.0, 1.5, None])).tolist(), price.size
        ([2, 1026, 1], 2051)
    """

    name: str
    knots: tuple[float, ...]

    n_buckets = None

    @classmethod
    def of_column(cls, name: str, column: EncodedColumn) -> NumericField:
        """Learns the knots of rows in memory."""
        values = column.known_values
        counts = np.bincount(column.ids, minlength=len(values))
        return cls(name, learn_knots(numbers_or_nan(values, name), counts))

    @classmethod
    def of_texts(cls, name: str, texts: pa.Array) -> NumericField:
        """Reads knots that were written as text; refuses what does not rise."""
        knots = tuple(float(text) for text in texts.to_pylist())
        if not all(np.isfinite(knots)) or any(knot >= other for knot, other in pairwise(knots)):
            raise ValueError(f"the knots of field {name!r} do not rise")
        return cls(name, knots)

    @property
    def values(self) -> pa.Array:
        """The knots as text that reads back to the same numbers."""
        return pa.array([repr(knot) for knot in self.knots], pa.string())

    @property
    def n_knots(self) -> int:
        return len(self.knots)

    @property
    def size(self) -> int:
        """How many ids there are, those of unseen and null included."""
        return n_numeric_ids(self.n_knots)

    def encode(self, column: pa.Array | pa.ChunkedArray) -> Ids:
        """Returns the id of every row."""
        return self.ids_of(numbers_or_nan(column, self.name))

    def ids_of(self, numbers: Floats) -> Ids:
        """Returns the id of every number; NaN is a null."""
        return ids_of_numbers(numbers, self._knots)

    def numbers_of(self, ids: Ids) -> Floats:
        """Returns the number behind every id; NaN for a null and for an unseen value."""
        return numbers_of_ids(ids, self._knots)

    @cached_property
    def _knots(self) -> NDArray[np.float64]:
        return np.array(self.knots, dtype=np.float64)
