"""The values of all fields in one table that the compiled look-up searches."""

from __future__ import annotations

from typing import final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.kernels.text_ids import FIRST_SLOT, FOUND, MASK, N_BUCKETS, N_FACTS, find_ids, place_values
from monocal.vocabulary.text_hash import hash_text
from monocal.vocabulary.vocabulary import NumericField, Vocabulary


@final
class TextTable:
    """Finds the ids of texts by the hashes that `FieldVocabulary.encode` compares, so both give the same ids.

    Asking never adds an entry, so strange traffic does not grow it. It takes 32 to 64 bytes per value.

    Arguments:
        vocabulary: Values and ids of the model's fields.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._facts = np.zeros((len(vocabulary.fields), N_FACTS), np.int64)
        tables = []
        n_slots = 0
        for place, field in enumerate(vocabulary.fields):
            if isinstance(field, NumericField):
                continue
            values, spellings = field.values, field.spellings
            size = 1 << max(2 * (len(values) + len(spellings)) - 1, 1).bit_length()
            entries = np.zeros((size, 2), np.uint64)
            ids = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)) + 1
            place_values(*hash_text(values.drop_null()), ids, entries)
            if spellings:
                place_values(*hash_text(pa.array(list(spellings))), np.array(list(spellings.values())), entries)
            self._facts[place, [FIRST_SLOT, MASK, N_BUCKETS]] = n_slots, size - 1, field.n_buckets or 0
            tables.append(entries)
            n_slots += size
        self._entries = np.concatenate(tables) if tables else np.zeros((0, 2), np.uint64)

    @property
    def n_bytes(self) -> int:
        """What the table takes in memory."""
        return self._facts.nbytes + self._entries.nbytes

    def find(self, joined: str, columns: NDArray[np.int64], n_varying: int, ids: Ids) -> bool:
        """Writes the ids of texts into `ids`; says no if it cannot, because of a zero byte in a text, half a
        character, or a long text in a hashed field.

        Arguments:
            joined: The texts, each ended by a zero byte, and `TEXT_ROOM` zero bytes more.
            columns: The fields in the order of their texts.
            n_varying: How many of them have a text per row; the others have one for all.
            ids: `(rows, fields)`.
        """
        try:
            data = np.frombuffer(joined.encode(), np.uint8)
        except UnicodeEncodeError:
            return False
        found: int = find_ids(data, columns, n_varying, ids.shape[0], self._facts, self._entries, ids)
        return found == FOUND
