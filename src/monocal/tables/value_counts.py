"""How often each value of a field occurs, in rows at hand or batch by batch over a stream; which values are kept."""

from __future__ import annotations

import warnings
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.compiled.limits import LONGEST_VALUE
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.tables.categories import distinct_text
from monocal.tables.value_index import GrowingDictionary, is_long

MOST_TEXT_BYTES = 2**31 - 1
"""Arrow's offsets of a text column end there."""


@final
class ValueCounts:
    """How often each value of a field occurred so far.

    Memory grows with the number of distinct values (32 to 60 bytes and the text of each), not with the rows.

    Example:
        >>> counts = ValueCounts("site")
        >>> counts.add(pa.array(["a", "b", "a"]))
        >>> counts.add(pa.array(["c", "b", "a", None]))
        >>> counts.frequent(min_count=2).to_pylist()
        ['a', 'b']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._seen = GrowingDictionary()
        self._counts: NDArray[np.int64] = np.zeros(64, dtype=np.int64)
        self._n_null = 0

    def add(self, column: pa.Array) -> None:
        """Counts the values of one more batch."""
        values, counts, _ = distinct_text(column, self.name)
        values, counts = without_long_texts(values, counts, self.name)
        if values.null_count:
            is_null = pc.is_null(values).to_numpy(zero_copy_only=False)
            self._n_null += int(counts[is_null].sum())
            values, counts = values.filter(pc.is_valid(values)), counts[~is_null]
        numbers = self._seen.add(values)
        if self._seen.n_text_bytes > MOST_TEXT_BYTES:
            raise InvalidInput.of(
                f"values of field {self.name!r}",
                f"{len(self._seen):,} of them with more than {MOST_TEXT_BYTES:,} bytes of text",
                "less text in one field",
                f"hash the field: hashed_fields={{{self.name!r}: 4_194_304}}",
            )
        if len(self._seen) > len(self._counts):
            room = max(len(self._seen), len(self._counts) + len(self._counts) // 2)
            self._counts = np.concatenate((self._counts, np.zeros(room - len(self._counts), dtype=np.int64)))
        np.add.at(self._counts, numbers, counts)

    def in_order_of_appearance(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """Returns every value seen, oldest first and null last, and how often each occurred."""
        values, counts = self._seen.values(), self._counts[: len(self._seen)]
        if not self._n_null:
            return values, counts
        return pa.concat_arrays([values, pa.nulls(1, pa.string())]), np.append(counts, self._n_null)

    def frequent(self, *, min_count: int = 1, max_size: int | None = None) -> pa.Array:
        """Returns the values with at least `min_count` rows, the most frequent first, at most `max_size` of them.

        Ties are broken by the value itself (null last), so the result does not depend on row order.
        """
        return most_frequent(*self.in_order_of_appearance(), min_count=min_count, max_size=max_size)


def without_long_texts(values: pa.Array, counts: NDArray[np.int64], name: str) -> tuple[pa.Array, NDArray[np.int64]]:
    """Returns values and counts without texts that are too long for categories; says so if there are any.

    One odd row must not end a fit, and nothing can be learned of a text that hardly ever occurs again.
    """
    long = is_long(values)
    if long is None:
        return values, counts
    warnings.warn(
        f"field {name!r}: texts of more than {LONGEST_VALUE:,} bytes are no categories; they count as unseen",
        MonocalWarning,
        stacklevel=2,
    )
    return values.filter(pa.array(~long)), counts[~long]


def most_frequent(
    values: pa.Array, counts: NDArray[np.int64], *, min_count: int = 1, max_size: int | None = None
) -> pa.Array:
    """Returns the texts with at least `min_count` rows, the most frequent first, ties by the text itself, null last.

    Example:
        >>> most_frequent(pa.array(["b", "c", "a"]), np.array([2, 7, 2]), max_size=2).to_pylist()
        ['c', 'a']
    """
    chosen = np.flatnonzero(counts >= max(min_count, 1))
    if max_size is not None and 0 < max_size < len(chosen):
        # ties at the edge are settled by the sort below, so all of them must be in it
        edge = np.partition(counts[chosen], len(chosen) - max_size)[len(chosen) - max_size]
        chosen = chosen[counts[chosen] >= edge]
    kept = pa.table({"value": values.take(pa.array(chosen)), "count": pa.array(counts[chosen])})
    order = pc.sort_indices(kept, sort_keys=[("count", "descending"), ("value", "ascending")])
    sorted_values = kept["value"].take(order if max_size is None else order[:max_size])
    return sorted_values.combine_chunks() if sorted_values.num_chunks != 1 else sorted_values.chunk(0)
