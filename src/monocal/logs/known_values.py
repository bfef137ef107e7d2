"""Forgetting field values that the fitting rows did not have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from monocal.core.fingerprint import fingerprint
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.vocabulary import NumericField, Vocabulary, most_frequent


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
        >>> import pyarrow as pa
        >>> from monocal.tables.roles import Roles
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
    for index, field in enumerate(log.vocabulary.fields):
        column = log.features[:, index]
        if field.n_buckets is not None or isinstance(field, NumericField):
            fields.append(field)
            features[:, index] = column
            continue
        counts = np.bincount(column[start:stop], minlength=field.size)[1:]
        known = replace(field, values=most_frequent(field.values, counts, min_count=min_count, max_size=max_size))
        features[:, index] = np.append(np.int32(0), known.encode(field.values))[column]
        fields.append(known)
    vocabulary = Vocabulary(tuple(fields))
    mark = fingerprint(log.fingerprint, "values of", start, stop, min_count, max_size)
    return replace(log, features=features, vocabulary=vocabulary, fingerprint=mark, folder=None)
