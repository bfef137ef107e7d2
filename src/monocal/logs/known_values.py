"""Forgetting field values that the fitting rows did not have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.fingerprint import fingerprint
from monocal.core.samples import Ids
from monocal.logs.encoded_log import EncodedLog
from monocal.vocabulary.vocabulary import FieldVocabulary, Vocabulary


def keep_values_of(
    log: EncodedLog, start: int, stop: int, *, min_count: int = 1, max_size: int | None = None
) -> EncodedLog:
    """Returns the log with the vocabulary that its rows `start ≤ row < stop` alone would have given.

    Values that only other rows have become unseen (id 0), as they would be for a model fitted on those rows. Without
    this step a held-out part would count as known what nobody could know.

    Arguments:
        log: All rows, encoded with all values.
        start: First row that counts.
        stop: Row after the last one that counts.
        min_count: Values with fewer of those rows become unseen.
        max_size: The most values a field keeps; the most frequent stay.

    Example:
        >>> from monocal.core.roles import Roles
        >>> table = pa.table({"site": ["a", "b", "b", "c"]})
        >>> vocabulary = Vocabulary.of_table(table, ["site"])
        >>> schema = Roles(labels="click", fields=["site"])
        >>> log = EncodedLog.of(vocabulary.encode(table), {"click": [0, 1, 0, 0]}, vocabulary, schema)
        >>> known = keep_values_of(log, 0, 3)
        >>> known.vocabulary["site"].values.to_pylist(), known.features[:, 0].tolist()
        (['b', 'a'], [2, 1, 1, 0])
    """
    features = np.empty_like(log.features)
    fields = []
    for index, one in enumerate(log.vocabulary.fields):
        column = log.features[:, index]
        if one.n_buckets is not None:
            fields.append(one)
            features[:, index] = column
            continue
        counts = np.bincount(column[start:stop], minlength=one.size)
        kept = _most_frequent(counts, min_count, max_size)
        new_id = np.zeros(one.size, dtype=np.int32)
        new_id[kept] = np.arange(1, len(kept) + 1, dtype=np.int32)
        features[:, index] = new_id[column]
        fields.append(FieldVocabulary(one.name, one.values.take(pa.array(kept - 1))))
    vocabulary = Vocabulary(tuple(fields))
    mark = fingerprint(log.fingerprint, "values of", start, stop, min_count, max_size)
    return replace(log, features=features, vocabulary=vocabulary, fingerprint=mark, folder=None)


def _most_frequent(counts: NDArray[np.int64], min_count: int, max_size: int | None) -> Ids:
    counts = counts.copy()
    counts[0] = 0
    # ids were given by frequency and then by value, so a stable sort keeps that order among equals
    order = np.argsort(-counts, kind="stable")
    n_kept = int(np.count_nonzero(counts >= max(min_count, 1)))
    kept: Ids = order[: n_kept if max_size is None else min(n_kept, max_size)].astype(np.int32)
    return kept
