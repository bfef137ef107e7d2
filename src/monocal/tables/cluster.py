"""A Spark table as batches of Arrow; nothing here imports Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import pyarrow as pa

_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
"""Spark's names of column types, in Arrow."""


@final
class ClusterTable:
    """The columns of a Spark table as a dataset; rows stay on the cluster until columns are asked for.

    They are collected partition after partition (before Spark 4.2 in one piece) and kept, because Spark may give the
    rows of a shuffled table in another order when it is asked again.

    Arguments:
        frame: A `pyspark.sql.DataFrame`, classic or of Spark Connect.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._held: pa.Table | None = None
        self.schema = collect(frame.limit(0)).schema

    def hold(self, columns: Sequence[str]) -> pa.Table:
        """Returns these columns; what is asked for later is found in the same order if it is among them."""
        if self._held is None or not set(columns) <= set(self._held.column_names):
            self._held = collect(self._frame.select(*(f"`{name}`" for name in dict.fromkeys(columns))))
        return self._held.select(list(columns))

    def to_batches(self, columns: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """Yields batches of these columns."""
        yield from self.hold(columns).to_batches(max_chunksize=batch_size)


def collect(frame: Any) -> pa.Table:
    """Brings a Spark table to this machine, with the types that its columns have there."""
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    # Spark 3.5 gives pandas frames only, where a whole number beside a null is a fraction and an empty text has no type
    rows = frame.mapInArrow(_as_bytes, "data binary").collect()
    pieces = [pa.ipc.open_stream(row["data"]).read_all() for row in rows]
    schema = pa.schema([(column.name, _arrow_type(column, pieces)) for column in frame.schema.fields])
    return pa.concat_tables([schema.empty_table(), *(piece.cast(schema) for piece in pieces)])


def _arrow_type(column: Any, pieces: Sequence[pa.Table]) -> pa.DataType:
    """Returns the type of a Spark column; lists and the like, which play no part here, have that of their rows."""
    kind = column.dataType.typeName()
    if kind == "decimal":
        return pa.decimal128(column.dataType.precision, column.dataType.scale)
    return _TYPES.get(kind) or (pieces[0].schema.field(column.name).type if pieces else pa.null())


def _as_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker does: every batch becomes one row, the bytes of an Arrow stream."""
    for batch in batches:
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([stream.getvalue().to_pybytes()], pa.binary())], names=["data"])
