"""How often each value of a field occurs, batch by batch over a stream that may be longer than memory."""

from __future__ import annotations

from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.tables.categories import distinct_text
from monocal.tables.value_index import Codes, ValueIndex, most_frequent, without_long_texts

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


@final
class GrowingDictionary:
    """Numbers distinct texts in order of first appearance, and keeps them.

    Example:
        >>> dictionary = GrowingDictionary()
        >>> dictionary.add(pa.array(["b", "a", "b"])).tolist(), dictionary.add(pa.array(["c", "a"])).tolist()
        ([0, 1, 0], [2, 1])
        >>> dictionary.values().to_pylist()
        ['b', 'a', 'c']
    """

    def __init__(self) -> None:
        self._index = ValueIndex()
        self._texts: list[pa.Array] = []
        self.n_text_bytes = 0

    def __len__(self) -> int:
        return len(self._index)

    def add(self, texts: pa.Array) -> Codes:
        """Returns the number of every text (no nulls); new ones get the next numbers."""
        n_before = len(self._index)
        numbers = self._index.add(texts)
        # numbers are given in order of appearance, so a text is new where the number exceeds all before it
        highest = np.maximum.accumulate(np.concatenate(([n_before - 1], numbers)))[:-1]
        is_new = numbers > highest
        if is_new.any():
            self._texts.append(texts.filter(pa.array(is_new)))
            self.n_text_bytes += int(pc.sum(pc.binary_length(self._texts[-1])).as_py())
        return numbers

    def find(self, texts: pa.Array) -> Codes:
        """Returns the number of every text, or -1 for one that was never added."""
        return self._index.find(texts)

    def values(self) -> pa.Array:
        """Returns all texts, in order of their numbers."""
        if len(self._texts) > 1:
            self._texts = [pa.concat_arrays(self._texts)]
        return self._texts[0] if self._texts else pa.array([], pa.string())
