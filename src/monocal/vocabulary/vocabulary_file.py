"""A vocabulary as Arrow IPC: written without compression, and read only if every byte of it makes sense."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from monocal.core.errors import ArtefactError

Contents = bytes | mmap.mmap
"""A file that was read or mapped."""

Fields = list[tuple[str, pa.Array, int | None]]

_SCHEMA = pa.schema([("field", pa.string()), ("values", pa.large_list(pa.string())), ("n_buckets", pa.int64())])
_MAGIC = b"ARROW1\0\0"
_MOST_BUCKETS = 2**31 - 2
_HEADER, _COMPRESSION = 2, 3
"""Numbers of the entries `Message.header` and `RecordBatch.compression` in the Arrow format."""


def write_vocabulary(
    sink: Any, fields: Sequence[tuple[str, pa.Array, int | None]], metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """Writes name, values in id order and number of buckets of every field, one record batch each.

    Arguments:
        sink: Where to, anything that Arrow can write to.
        fields: The fields, in order.
        metadata: Facts about all of them.
    """
    schema = _SCHEMA.with_metadata(dict(metadata or {}))
    with pa.ipc.new_file(sink, schema) as writer:
        for name, values, n_buckets in fields:
            whole = pa.LargeListArray.from_arrays([0, len(values)], values)
            row = [pa.array([name]), whole, pa.array([n_buckets], pa.int64())]
            writer.write_batch(pa.RecordBatch.from_arrays(row, schema=schema))


def read_vocabulary(contents: Contents, name: str = "") -> tuple[Fields, dict[bytes, bytes]]:
    """Reads what `write_vocabulary` wrote: the fields and the metadata.

    The arrays are views of `contents`: reading takes no more memory than the file has bytes. Compressed buffers,
    which could expand to anything, are refused before they are expanded; offsets and texts are validated in full.

    Example:
        >>> sink = pa.BufferOutputStream()
        >>> write_vocabulary(sink, [("site", pa.array(["news", "games"]), None)])
        >>> [(name, values.to_pylist()) for name, values, _ in read_vocabulary(sink.getvalue().to_pybytes())[0]]
        [('site', ['news', 'games'])]
    """
    try:
        batches, metadata = read_batches(contents, _SCHEMA)
        return [_field(batch) for batch in batches], metadata
    except UNREADABLE as error:
        raise ArtefactError(f"vocabulary {name} cannot be read ({error}); nothing was loaded") from error


UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, struct.error)
"""What reading a damaged file raises."""


def read_batches(contents: Contents, schema: pa.Schema) -> tuple[list[pa.RecordBatch], dict[bytes, bytes]]:
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
        if not reader.schema.equals(schema):
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


def _field(batch: pa.RecordBatch) -> tuple[str, pa.Array, int | None]:
    if batch.num_rows != 1 or any(batch.column(name).null_count for name in ("field", "values")):
        raise ValueError("a batch is not one field")
    values, n_buckets = batch.column("values")[0].values, batch.column("n_buckets")[0].as_py()
    if n_buckets is not None and (not 1 <= n_buckets <= _MOST_BUCKETS or len(values)):
        raise ValueError(f"a hashed field with {n_buckets} buckets and {len(values)} values")
    return batch.column("field")[0].as_py(), values, n_buckets


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
