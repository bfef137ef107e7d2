"""Clean rows on disk, so that a log that is slow to read is read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa

from monocal.core.errors import ArtefactError
from monocal.core.files import atomic_file
from monocal.logs.log_rows import LogRows
from monocal.tables.categories import distinct_text


@final
class Spool:
    """Rows in an Arrow IPC stream whose dictionaries belong to one batch each, so memory is that of a batch.

    The row count lies in a second file that is written last: without it the spool is not there.

    Arguments:
        path: The file; a second one with the ending `.json` lies beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = path.with_suffix(".json")

    @property
    def is_finished(self) -> bool:
        return self._note.is_file() and self._path.is_file()

    @property
    def n_rows(self) -> int:
        return int(self.notes()["n_rows"])

    def notes(self) -> dict[str, Any]:
        """Returns what was noted when the spool was finished."""
        try:
            notes: dict[str, Any] = json.loads(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ArtefactError(f"{self._note.name} cannot be read ({error})") from error
        return notes

    def write(self, rows: Iterable[LogRows]) -> int:
        """Writes all rows; the spool counts as there only after `finish`."""
        n_rows = 0
        writer = None
        self._note.unlink(missing_ok=True)
        options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
        with atomic_file(self._path) as temporary, pa.OSFile(str(temporary), "wb") as sink:
            for part in rows:
                batch = _to_batch(part)
                if writer is None:
                    writer = pa.ipc.new_stream(sink, batch.schema, options=options)
                if batch.num_rows:
                    writer.write_batch(batch)
                n_rows += part.n_rows
            if writer is not None:
                writer.close()
        return n_rows

    def finish(self, notes: dict[str, Any]) -> None:
        """Notes the row count and anything else worth keeping; from now on the spool is there."""
        with atomic_file(self._note) as temporary:
            temporary.write_text(json.dumps(notes), encoding="utf-8")

    def read(self, *, fields: bool = False, group: bool = False, numbers: tuple[str, ...] = ()) -> Iterator[LogRows]:
        """Yields the rows in the order they were written, with the columns asked for."""
        if self._path.stat().st_size == 0:
            return
        with pa.OSFile(str(self._path), "rb") as head, pa.ipc.open_stream(head) as peek:
            names = peek.schema.names
        wanted = [
            index
            for index, name in enumerate(names)
            if (fields and name.startswith("field:")) or (group and name == "group") or name in numbers
        ]
        # a projection without columns would lose the row count, so one number column always comes along
        options = pa.ipc.IpcReadOptions(included_fields=wanted or [len(names) - 1])
        with pa.OSFile(str(self._path), "rb") as source, pa.ipc.open_stream(source, options=options) as reader:
            for batch in reader:
                yield _from_batch(batch, group, numbers)


def _to_batch(rows: LogRows) -> pa.RecordBatch:
    columns = {f"field:{name}": _coded(column, name) for name, column in _named(rows.fields)}
    if rows.group is not None:
        columns["group"] = _coded(rows.group, "group")
    columns |= {name: pa.array(values) for name, values in rows.numbers.items()}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _from_batch(batch: pa.RecordBatch, group: bool, numbers: tuple[str, ...]) -> LogRows:
    names = [name for name in batch.schema.names if name.startswith("field:")]
    fields = pa.RecordBatch.from_arrays(
        [batch.column(name) for name in names], names=[name.removeprefix("field:") for name in names]
    )
    held = {name: np.asarray(batch.column(name).to_numpy(zero_copy_only=False)) for name in numbers}
    return LogRows(batch.num_rows, fields, batch.column("group") if group else None, held)


def _named(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    return list(zip(batch.schema.names, batch.columns, strict=True))


def _coded(column: pa.Array, name: str) -> pa.Array:
    """A dictionary of the values in these rows alone, whatever dictionary the column came with."""
    values, _, which = distinct_text(column, name)
    return pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), values)
