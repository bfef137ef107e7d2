"""A vocabulary as Arrow IPC: written without compression, and read only if every byte of it makes sense."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from monocal.core.errors import ArtefactError, MonocalError
from monocal.core.files import atomic_file
from monocal.tables.value_index import ValueIndex
from monocal.tables.vocabulary import FieldVocabulary, NumericField, Vocabulary

Contents = bytes | mmap.mmap
"""A file that was read or mapped."""

_SCHEMA = pa.schema(
    [
        ("field", pa.string()),
        ("values", pa.large_list(pa.string())),
        ("n_buckets", pa.int64()),
        ("first", pa.large_list(pa.uint64())),
        ("second", pa.large_list(pa.uint64())),
        ("slots", pa.large_list(pa.int32())),
        ("salt", pa.uint64()),
    ]
)
_NUMERIC_KEY = b"numeric"
_MAGIC = b"ARROW1\0\0"
_MOST_BUCKETS = 2**31 - 2
_HEADER, _COMPRESSION = 2, 3
"""Numbers of the entries `Message.header` and `RecordBatch.compression` in the Arrow format."""


INDEXED_VALUES = 100_000
"""Fields with as many values bring their index along in a model; others are indexed in milliseconds where used."""


def save_vocabulary(vocabulary: Vocabulary, path: str | Path) -> None:
    """Writes one Arrow IPC file, atomically."""
    with atomic_file(path) as temporary, pa.OSFile(str(temporary), "wb") as sink:
        _write(sink, vocabulary)


def vocabulary_bytes(vocabulary: Vocabulary, *, least: int | None = None) -> bytes:
    """Returns what `save_vocabulary` writes; with the indexes of fields that have at least so many values."""
    sink = pa.BufferOutputStream()
    _write(sink, vocabulary, least)
    return bytes(sink.getvalue())


def _write(sink: Any, vocabulary: Vocabulary, least: int | None = None) -> None:
    """Writes fields, one record batch each; the metadata says which of them hold numbers."""
    schema = _SCHEMA.with_metadata({_NUMERIC_KEY: json.dumps(vocabulary.numeric_names).encode()})
    with pa.ipc.new_file(sink, schema) as writer:
        for field in vocabulary.fields:
            index = None
            if isinstance(field, FieldVocabulary) and least is not None and len(field.values) >= least:
                index = field.index
            lists = [field.values, *(index.arrays() if index is not None else (None,) * 3)]
            values, *indexes = (_one_list(part, kind.type) for part, kind in zip(lists, _LISTS, strict=True))
            salt = pa.array([None if index is None else index.salt], pa.uint64())
            row = [pa.array([field.name]), values, pa.array([field.n_buckets], pa.int64()), *indexes, salt]
            writer.write_batch(pa.RecordBatch.from_arrays(row, schema=schema))


_LISTS = [_SCHEMA.field(name) for name in ("values", "first", "second", "slots")]


def _one_list(values: Any, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(1, kind)
    return pa.LargeListArray.from_arrays([0, len(values)], pa.array(values, kind.value_type))


def load_vocabulary(path: str | Path) -> Vocabulary:
    """Reads what `save_vocabulary` wrote; a damaged file is refused."""
    name = Path(path).name
    try:
        contents = Path(path).read_bytes()
    except OSError as error:
        raise ArtefactError(f"vocabulary {name} cannot be read ({error}); nothing was loaded") from error
    return read_vocabulary(contents, name)


def read_vocabulary(contents: Contents, name: str = "") -> Vocabulary:
    """Reads the contents of a file that was written; damaged, invalid or compressed ones are refused.

    The arrays are views of `contents`: reading takes no more memory than the file has bytes. Compressed buffers,
    which could expand to anything, are refused before they are expanded; offsets and texts are validated in full.

    Example:
        >>> vocabulary = Vocabulary((FieldVocabulary("site", pa.array(["news", "games"])),))
        >>> read = read_vocabulary(vocabulary_bytes(vocabulary, least=2))
        >>> read["site"].encode(pa.array(["news", "shop", "games"])).tolist(), "index" in vars(read["site"])
        ([1, 0, 2], True)
    """
    try:
        batches, metadata = _read_batches(contents)
        numeric = json.loads(metadata.get(_NUMERIC_KEY, b"[]"))
        return Vocabulary(tuple(_field(batch, numeric) for batch in batches))
    except UNREADABLE as error:
        raise ArtefactError(f"vocabulary {name} cannot be read ({error}); nothing was loaded") from error


UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError, struct.error, MonocalError)
"""What reading a damaged file raises."""


def _read_batches(contents: Contents) -> tuple[list[pa.RecordBatch], dict[bytes, bytes]]:
    """Returns the record batches of an Arrow file and its metadata; batches are views of `contents`, checked in full.

    Raises one of `UNREADABLE` for a file that has another schema, is damaged, or is compressed.
    """
    if contents[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not an Arrow file")
    # read as a stream, so that the batches that are looked at here are the ones that are used below
    body = pa.py_buffer(contents)[len(_MAGIC) :]
    with pa.ipc.open_file(pa.py_buffer(contents)) as whole:
        n_left = whole.num_record_batches
    for message in pa.ipc.MessageReader.open_stream(body):
        n_left -= message.type == "record batch"
        if message.type == "record batch" and _is_compressed(bytes(message.metadata)):
            raise ValueError("its buffers are compressed, which monocal never does")
        if message.type not in ("schema", "record batch"):
            raise ValueError(f"it holds a {message.type}")
    if n_left:
        raise ValueError("its end does not agree with its contents")
    with pa.ipc.open_stream(body) as reader:
        if not reader.schema.equals(_SCHEMA):
            raise ValueError(f"its columns are {', '.join(reader.schema.names)}")
        batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
        return batches, dict(reader.schema.metadata or {})


def _field(batch: pa.RecordBatch, numeric: Collection[str]) -> FieldVocabulary | NumericField:
    if batch.num_rows != 1 or any(batch.column(name).null_count for name in ("field", "values")):
        raise ValueError("a batch is not one field")
    values, n_buckets = batch.column("values")[0].values, batch.column("n_buckets")[0].as_py()
    if n_buckets is not None and (not 1 <= n_buckets <= _MOST_BUCKETS or len(values)):
        raise ValueError(f"a hashed field with {n_buckets} buckets and {len(values)} values")
    name, salt = batch.column("field")[0].as_py(), batch.column("salt")[0].as_py()
    if name in numeric:
        return NumericField.of_texts(name, values)
    field = FieldVocabulary(name, values, n_buckets)
    if salt is None:
        return field
    parts = ("first", "second", "slots")
    if any(batch.column(part).null_count for part in parts):
        raise ValueError("half of an index")
    first, second, slots = (batch.column(part)[0].values.to_numpy(zero_copy_only=True) for part in parts)
    return field.with_index(ValueIndex.of_arrays(first, second, slots, salt))


def _is_compressed(metadata: bytes) -> bool:
    """Whether a record batch says that its buffers are compressed (a FlatBuffers table inside another)."""
    message = _unsigned(metadata, 0)
    header = _entry(metadata, message, _HEADER)
    return header is not None and _entry(metadata, header + _unsigned(metadata, header), _COMPRESSION) is not None


def _entry(metadata: bytes, table: int, number: int) -> int | None:
    """Returns where the numbered entry of a FlatBuffers table lies, or None if the table does not have it."""
    places = table - struct.unpack_from("<i", metadata, table)[0]
    n_bytes = struct.unpack_from("<H", metadata, places)[0]
    at = 4 + 2 * number
    if places < 0 or at + 2 > n_bytes:
        return None
    offset = struct.unpack_from("<H", metadata, places + at)[0]
    return table + offset if offset else None


def _unsigned(metadata: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", metadata, at)[0])
