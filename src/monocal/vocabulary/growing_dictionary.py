"""Distinct texts and their numbers, growing batch by batch."""

from __future__ import annotations

from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monocal.vocabulary.value_index import Codes, ValueIndex


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
