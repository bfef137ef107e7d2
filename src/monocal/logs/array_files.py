"""One .npy file per column, written row by row and continued after an interruption."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.logs.log_folder import map_array


@final
@dataclass(frozen=True)
class ArrayFile:
    """An array file whose number of rows is known before its contents.

    Attributes:
        name: What the array is called ("features", "label:click", …).
        path: Where it is.
        kind: Type of the entries.
        shape: Rows, and columns if there are several.
    """

    name: str
    path: Path
    kind: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def sorted_path(self) -> Path:
        """Where the array lies while it is being put into time order."""
        return self.path.with_suffix(".sorted")

    @property
    def row_bytes(self) -> int:
        return int(self.kind.itemsize * np.prod(self.shape[1:], dtype=np.int64))

    def create(self, path: Path) -> IO[bytes]:
        """Opens a new file and writes the header."""
        stream = path.open("wb")
        stream.write(self._header())
        return stream

    def resume(self, n_rows: int) -> IO[bytes]:
        """Opens the file for the rows after the first `n_rows`, dropping anything that was written after them."""
        if n_rows == 0:
            return self.create(self.path)
        end = len(self._header()) + n_rows * self.row_bytes
        stream = self.path.open("r+b")
        stream.truncate(end)
        stream.seek(end)
        return stream

    def holds(self, n_rows: int) -> bool:
        """Whether at least the first `n_rows` are in the file."""
        needed = len(self._header()) + n_rows * self.row_bytes
        return n_rows == 0 or (self.path.is_file() and self.path.stat().st_size >= needed)

    def append(self, stream: IO[bytes], rows: NDArray[Any]) -> None:
        """Writes rows where the stream stands."""
        stream.write(np.ascontiguousarray(rows, dtype=self.kind).data)

    def write_at(self, stream: IO[bytes], start: int, rows: NDArray[Any]) -> None:
        """Writes rows from row `start` on."""
        stream.seek(len(self._header()) + start * self.row_bytes)
        self.append(stream, rows)

    def map(self) -> NDArray[Any]:
        """Opens the finished file as a read-only memory map."""
        return map_array(self.path)

    def _header(self) -> bytes:
        buffer = io.BytesIO()
        description = {"descr": self.kind.str, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(buffer, description)
        return buffer.getvalue()


def sync(stream: IO[bytes]) -> None:
    """Makes sure that what was written is on the disk."""
    stream.flush()
    os.fsync(stream.fileno())
