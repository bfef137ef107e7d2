"""A vocabulary as Arrow IPC: written without compression, and read only if every byte of it makes sense."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import pyarrow as pa

from monocal.core.errors import ArtefactError, MonocalError
from monocal.tables.value_index import ValueIndex

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
_MAGIC = b"ARROW1\0\0"
_MOST_BUCKETS = 2**31 - 2
_HEADER, _COMPRESSION = 2, 3
"""Numbers of the entries `Message.header` and `RecordBatch.compression` in the Arrow format."""


@final
@dataclass(frozen=True)
class FieldEntry:
    """One field as it lies in the file.

    Attributes:
        name: The field.
        values: Its values in id order.
        n_buckets: How many ids texts are hashed to; None for listed values.
        index: The index of the values that are not null, if it was written along.
    """

    name: str
    values: pa.Array
    n_buckets: int | None = None
    index: ValueIndex | None = None


def write_vocabulary(sink: Any, fields: Sequence[FieldEntry], metadata: Mapping[bytes, bytes] | None = None) -> None:
    """Writes fields, one record batch each.

    Arguments:
        sink: Where to, anything that Arrow can write to.
        fields: The fields, in order.
        metadata: Facts about all of them.
    """
    schema = _SCHEMA.with_metadata(dict(metadata or {}))
    with pa.ipc.new_file(sink, schema) as writer:
        for field in fields:
            lists = [field.values, *(field.index.arrays() if field.index is not None else (None,) * 3)]
            values, *indexes = (_one_list(part, kind.type) for part, kind in zip(lists, _LISTS, strict=True))
            salt = pa.array([None if field.index is None else field.index.salt], pa.uint64())
            row = [pa.array([field.name]), values, pa.array([field.n_buckets], pa.int64()), *indexes, salt]
            writer.write_batch(pa.RecordBatch.from_arrays(row, schema=schema))


_LISTS = [_SCHEMA.field(name) for name in ("values", "first", "second", "slots")]


def _one_list(values: Any, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(1, kind)
    return pa.LargeListArray.from_arrays([0, len(values)], pa.array(values, kind.value_type))


def read_vocabulary(contents: Contents, name: str = "") -> tuple[list[FieldEntry], dict[bytes, bytes]]:
    """Reads what `write_vocabulary` wrote: the fields and the metadata.

    The arrays are views of `contents`: reading takes no more memory than the file has bytes. Compressed buffers,
    which could expand to anything, are refused before they are expanded; offsets and texts are validated in full.

    Example:
        >>> sink = pa.BufferOutputStream()
        >>> values = pa.array(["news", "games"])
        >>> write_vocabulary(sink, [FieldEntry("site", values, index=ValueIndex(values))])
        >>> ((site,), _) = read_vocabulary(sink.getvalue().to_pybytes())
        >>> site.name, site.values.to_pylist(), site.index.find(pa.array(["games", "shop"])).tolist()
        ('site', ['news', 'games'], [1, -1])
    """
    try:
        batches, metadata = _read_batches(contents)
        return [_field(batch) for batch in batches], metadata
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
    for message in _messages(body):
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


def _messages(body: pa.Buffer) -> Iterator[pa.Message]:
    reader = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _field(batch: pa.RecordBatch) -> FieldEntry:
    if batch.num_rows != 1 or any(batch.column(name).null_count for name in ("field", "values")):
        raise ValueError("a batch is not one field")
    values, n_buckets = batch.column("values")[0].values, batch.column("n_buckets")[0].as_py()
    if n_buckets is not None and (not 1 <= n_buckets <= _MOST_BUCKETS or len(values)):
        raise ValueError(f"a hashed field with {n_buckets} buckets and {len(values)} values")
    salt, index = batch.column("salt")[0].as_py(), None
    if salt is not None:
        if any(batch.column(part).null_count for part in ("first", "second", "slots")):
            raise ValueError("half of an index")
        parts = (batch.column(part)[0].values for part in ("first", "second", "slots"))
        first, second, slots = (part.to_numpy(zero_copy_only=True) for part in parts)
        index = ValueIndex.of_arrays(first, second, slots, salt)
    return FieldEntry(batch.column("field")[0].as_py(), values, n_buckets, index)


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
