"""Rows of a second file, looked up by key: the left join of a log with its users or items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.tables.categories import as_text, distinct_text
from monocal.tables.value_index import GrowingDictionary, ValueIndex

_NULL = -1


@final
class SideTable:
    """Attributes of keys, held as numbers: 24 to 48 bytes a key and 4 bytes an attribute, however long the texts.

    If a key comes twice, its first row counts.

    Arguments:
        attributes: The columns that are looked up.

    Example:
        >>> videos = SideTable(["author", "type"])
        >>> videos.add(pa.array(["v1", "v2"]), {"author": pa.array(["ann", "bob"]), "type": pa.array(["ad", "ad"])})
        >>> found = videos.look_up(pa.array(["v2", "v9"]))
        >>> found["author"].to_pylist(), found["type"].to_pylist()
        (['bob', None], ['ad', None])
    """

    def __init__(self, attributes: Sequence[str]) -> None:
        self.attributes = tuple(attributes)
        self._keys = ValueIndex()
        self._values = {name: GrowingDictionary() for name in self.attributes}
        self._blocks: list[NDArray[np.int32]] = []
        self._whole: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: pa.Array, columns: Mapping[str, pa.Array]) -> None:
        """Adds rows; every attribute must be among the columns."""
        n_before = len(self._keys)
        numbers = self._keys.add(as_text(keys, "key"))
        # a key is new where its number exceeds all numbers before it
        highest = np.maximum.accumulate(np.concatenate(([n_before - 1], numbers)))[:-1]
        rows = np.empty((len(keys), len(self.attributes)), dtype=np.int32)
        for place, name in enumerate(self.attributes):
            rows[:, place] = self._codes(name, columns[name])
        self._blocks.append(rows[numbers > highest])
        self._whole = None

    def look_up(self, keys: pa.Array, missing: str | None = None) -> dict[str, pa.Array]:
        """Returns the attributes of every key, dictionary-encoded with the values of these rows only.

        Arguments:
            keys: One key per row.
            missing: What stands for an unknown key or a missing attribute; None makes it null.
        """
        texts, _, which = distinct_text(keys, "key")
        rows = self._rows()[self._keys.find(texts)]
        found = {}
        for place, name in enumerate(self.attributes):
            used, inverse = np.unique(rows[:, place], return_inverse=True)
            values = self._values[name].values().take(pa.array(used, mask=used == _NULL))
            filled = values if missing is None else pc.fill_null(values, missing)
            found[name] = pa.DictionaryArray.from_arrays(pa.array(inverse[which].astype(np.int32)), filled)
        return found

    def _codes(self, name: str, column: pa.Array) -> NDArray[np.int32]:
        values, _, which = distinct_text(column, name)
        codes = np.full(len(values), _NULL, dtype=np.int32)
        present = pc.is_valid(values).to_numpy(zero_copy_only=False)
        codes[present] = self._values[name].add(values.drop_null())
        result: NDArray[np.int32] = codes[which]
        return result

    def _rows(self) -> NDArray[np.int32]:
        """The attributes of all keys, with a row of nulls at the end for number -1, the unknown key."""
        if self._whole is None:
            self._blocks = [np.concatenate([*self._blocks, np.empty((0, len(self.attributes)), dtype=np.int32)])]
            nothing = np.full((1, len(self.attributes)), _NULL, dtype=np.int32)
            self._whole = np.concatenate([*self._blocks, nothing])
        return self._whole
