"""Indexes of large vocabularies as Arrow IPC: built where the vocabulary is saved, mapped wherever it is loaded."""

from __future__ import annotations

import pyarrow as pa

from monocal.core.errors import ArtefactError, MonocalError
from monocal.vocabulary.value_index import ValueIndex
from monocal.vocabulary.vocabulary import FieldVocabulary, Vocabulary
from monocal.vocabulary.vocabulary_file import UNREADABLE, Contents, read_batches

INDEXED_VALUES = 100_000
"""Fields with as many values bring their index along; smaller ones are indexed in milliseconds where they are used."""

_SCHEMA = pa.schema(
    [
        ("field", pa.string()),
        ("first", pa.large_list(pa.uint64())),
        ("second", pa.large_list(pa.uint64())),
        ("slots", pa.large_list(pa.int32())),
        ("salt", pa.uint64()),
    ]
)


def write_indexes(vocabulary: Vocabulary, least: int = INDEXED_VALUES) -> bytes:
    """Returns the indexes of all fields with at least that many listed values; nothing if there is no such field.

    Example:
        >>> vocabulary = Vocabulary.of_table(pa.table({"site": ["news", "games"]}), ["site"])
        >>> read = read_indexes(write_indexes(vocabulary, least=2), vocabulary)
        >>> read["site"].encode(pa.array(["news", "shop", "games"])).tolist(), write_indexes(vocabulary)
        ([2, 0, 1], b'')
    """
    large = [field for field in vocabulary.fields if isinstance(field, FieldVocabulary) and len(field.values) >= least]
    if not large:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        for field in large:
            lists = [pa.LargeListArray.from_arrays([0, len(part)], pa.array(part)) for part in field.index.arrays()]
            salt = pa.array([field.index.salt], pa.uint64())
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array([field.name]), *lists, salt], schema=_SCHEMA))
    return bytes(sink.getvalue())


def read_indexes(contents: Contents, vocabulary: Vocabulary, name: str = "") -> Vocabulary:
    """Returns the vocabulary with the indexes that `write_indexes` wrote for it; the arrays are views of `contents`."""
    try:
        fields = {field.name: field for field in vocabulary.fields}
        for batch in read_batches(contents, _SCHEMA)[0]:
            if batch.num_rows != 1 or any(column.null_count for column in batch.columns):
                raise ValueError("a batch is not one field")
            first, second, slots = (
                batch.column(part)[0].values.to_numpy(zero_copy_only=True) for part in ("first", "second", "slots")
            )
            salt = batch.column("salt")[0].as_py()
            field = fields[batch.column("field")[0].as_py()]
            if not isinstance(field, FieldVocabulary):
                raise ValueError(f"an index of {field.name!r}, whose values are numbers")
            fields[field.name] = field.with_index(ValueIndex.of_arrays(first, second, slots, salt))
        return Vocabulary(tuple(fields.values()))
    except (*UNREADABLE, MonocalError) as error:
        raise ArtefactError(f"{name} cannot be read ({error}); nothing was loaded") from error
