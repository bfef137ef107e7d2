"""What raw logs keep beside their rows: a second file joined by key, and lists of features packed into one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.lab.value_counts import GrowingDictionary
from monocal.tables.categories import as_text, distinct_text
from monocal.tables.value_index import ValueIndex, load_words, text_bytes, words_of_bytes

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


_LONGEST_NUMBER = 18


class _Entries(NamedTuple):
    row: NDArray[np.int64]
    start: NDArray[np.int64]
    feature: NDArray[np.int64]
    value: NDArray[np.int64]
    is_whole: NDArray[np.bool_]


def first_features(lists: pa.Array, fields: Sequence[str]) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.bool_]]:
    r"""Returns the first feature id of each field in every list, and which lists are malformed.

    A field that is not in a list has feature 0. A list is malformed if an entry is not
    `field 0x02 feature 0x03 value`, or if a wanted feature is not a whole number.

    Arguments:
        lists: One text per row; empty text is a list without entries.
        fields: Wanted fields, each of at most 8 bytes.

    Example:
        >>> lists = pa.array(["205\x0242\x031.0\x01206\x027\x031.0\x01205\x0243\x031.0", "301\x025\x031", "301\x025"])
        >>> found, bad = first_features(lists, ["205", "301"])
        >>> found["205"].tolist(), found["301"].tolist(), bad.tolist()
        ([42, 0, 0], [0, 5, 0], [False, False, True])
    """
    starts, lengths, padded = text_bytes(lists)
    bad = np.zeros(len(lists), dtype=bool)
    entries = _find_entries(starts, lengths, padded)
    bad[entries.row[~entries.is_whole]] = True
    key_length = np.where(entries.is_whole, entries.feature - 1 - entries.start, 0)
    words = load_words(words_of_bytes(padded), entries.start, key_length)
    found = {}
    for field in fields:
        packed = np.uint64(int.from_bytes(field.encode(), "little"))
        at = np.flatnonzero((words == packed) & (key_length == len(field.encode())))
        rows = entries.row[at]
        is_first = np.concatenate(([True], rows[1:] != rows[:-1])) if len(at) else np.zeros(0, dtype=bool)
        at, rows = at[is_first], rows[is_first]
        numbers, no_number = _whole_numbers(padded, entries.feature[at], entries.value[at] - 1)
        column = np.zeros(len(lists), dtype=np.int64)
        column[rows] = numbers
        bad[rows[no_number]] = True
        found[field] = column
    return found, bad


def _find_entries(starts: NDArray[np.int64], lengths: NDArray[np.int64], padded: NDArray[np.uint8]) -> _Entries:
    n_bytes = len(padded) - 8
    data = padded[:n_bytes]
    filled = np.flatnonzero(lengths > 0)
    cuts = np.flatnonzero(data == 1)
    row_of_cut = filled[np.searchsorted(starts[filled], cuts, side="right") - 1]
    # an entry begins where a row begins or after a cut; a cut that ends a row comes before the next row's start
    begin = np.concatenate((cuts + 1, starts[filled]))
    order = np.argsort(begin, kind="stable")
    begin, row = begin[order], np.concatenate((row_of_cut, filled))[order]
    after_cut = order < len(cuts)
    end = np.concatenate((begin[1:] - after_cut[1:], [n_bytes]))
    twos, threes = np.flatnonzero(data == 2), np.flatnonzero(data == 3)
    if len(twos) == len(threes) == len(begin) and np.all((begin <= twos) & (twos < threes) & (threes < end)):
        return _Entries(row, begin, twos + 1, threes + 1, np.ones(len(begin), dtype=bool))
    feature, n_feature = _only_mark(twos, begin, end)
    value, n_value = _only_mark(threes, begin, end)
    is_whole = (n_feature == 1) & (n_value == 1) & (feature < value)
    return _Entries(row, begin, feature, value, is_whole)


def _only_mark(
    marks: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the byte after the first mark of each entry, and how many marks it has."""
    if not len(marks):
        return begin, np.zeros(len(begin), dtype=np.int64)
    first = np.searchsorted(marks, begin)
    count = np.searchsorted(marks, end) - first
    return marks[np.minimum(first, len(marks) - 1)] + 1, count


def _whole_numbers(
    padded: NDArray[np.uint8], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Reads decimal digits; returns the numbers and which texts are not whole numbers."""
    lengths = end - begin
    bad = (lengths < 1) | (lengths > _LONGEST_NUMBER)
    numbers = np.zeros(len(begin), dtype=np.int64)
    for position in range(int(min(lengths.max(initial=0), _LONGEST_NUMBER))):
        inside = position < lengths
        digit = padded[np.where(inside, begin + position, begin)].astype(np.int64) - 48
        bad |= inside & ((digit < 0) | (digit > 9))
        numbers = np.where(inside, numbers * 10 + digit, numbers)
    return np.where(bad, 0, numbers), bad
