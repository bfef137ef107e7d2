"""The values of all fields in one table that the compiled look-up searches."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.compiled.limits import TEXT_ROOM
from monocal.compiled.text_ids import FIRST_SLOT, FOUND, MASK, N_BUCKETS, N_FACTS, find_ids, place_values
from monocal.core.samples import Ids
from monocal.tables.value_index import hash_text
from monocal.tables.vocabulary import NumericField, Vocabulary

_NO_LENGTHS = np.zeros(0, np.int64)


@final
class TextTable:
    """Finds the ids of texts by the hashes that `FieldVocabulary.encode` compares, so both give the same ids.

    Asking never adds an entry, so strange traffic does not grow it. It takes 32 to 64 bytes per value. No two tables
    place values alike, so that nobody knows which ones would lie in each other's way.

    Arguments:
        vocabulary: Values and ids of the model's fields.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._facts = np.zeros((len(vocabulary.fields), N_FACTS), np.int64)
        self._salt = np.uint64(secrets.randbits(64))
        salt = int(self._salt)
        tables = []
        n_slots = 0
        for place, field in enumerate(vocabulary.fields):
            if isinstance(field, NumericField):
                continue
            values, spellings = field.values, field.spellings
            size = 1 << max(2 * (len(values) + len(spellings)) - 1, 1).bit_length()
            entries = np.zeros((size, 2), np.uint64)
            ids = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)) + 1
            place_values(*hash_text(values.drop_null(), salt), ids, entries)
            if spellings:
                place_values(*hash_text(pa.array(list(spellings)), salt), np.array(list(spellings.values())), entries)
            self._facts[place, [FIRST_SLOT, MASK, N_BUCKETS]] = n_slots, size - 1, field.n_buckets or 0
            tables.append(entries)
            n_slots += size
        self._entries = np.concatenate(tables) if tables else np.zeros((0, 2), np.uint64)

    @property
    def n_bytes(self) -> int:
        """What the table takes in memory."""
        return self._facts.nbytes + self._entries.nbytes

    def find(self, joined: str, columns: NDArray[np.int64], n_varying: int, ids: Ids) -> bool:
        """Writes the ids of texts into `ids`; says no if it cannot: a zero byte in a text, or half a character.

        Arguments:
            joined: The texts, each ended by a zero byte, and `TEXT_ROOM` zero bytes more.
            columns: The fields in the order of their texts.
            n_varying: How many of them have a text per row; the others have one for all.
            ids: `(rows, fields)`.
        """
        try:
            data = joined.encode()
        except UnicodeEncodeError:
            return False
        return self._find(data, _NO_LENGTHS, columns, n_varying, ids)

    def find_each(self, texts: Iterable[str], columns: NDArray[np.int64], n_varying: int, ids: Ids) -> None:
        """Writes the ids of texts whatever they hold, as `find` does for plain ones a few times as fast."""
        # half a character is no text that a table could hold, so it is unseen
        parts = [text.encode("utf-8", "backslashreplace") for text in texts]
        data = b"\0".join([*parts, bytes(TEXT_ROOM)])
        self._find(data, np.array([*map(len, parts)], np.int64), columns, n_varying, ids)

    def _find(
        self, data: bytes, lengths: NDArray[np.int64], columns: NDArray[np.int64], n_varying: int, ids: Ids
    ) -> bool:
        texts = np.frombuffer(data, np.uint8)
        n_rows = ids.shape[0]
        found: int = find_ids(texts, lengths, columns, n_varying, n_rows, self._facts, self._entries, self._salt, ids)
        return found == FOUND
