"""Columns as .npy files written row by row, and their stable sort by time."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.process import Progress, release_pages
from monocal.tables.encoded import map_array


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


_CHUNK_ROWS = 1 << 19
_BUCKET_ROWS = 1 << 20
_SAMPLES = 1 << 16

Times = NDArray[np.int64]


def is_sorted(times: Times) -> bool:
    """Whether times never go back."""
    for start in range(0, len(times), _CHUNK_ROWS):
        piece = times[start : start + _CHUNK_ROWS + 1]
        goes_back = bool(np.any(piece[1:] < piece[:-1]))
        release_pages(times)
        if goes_back:
            return False
    return True


def count_before(times: Times, moment: int) -> int:
    """Returns how many rows are older than `moment`."""
    n_before = 0
    for chunk in _chunks(times):
        n_before += int(np.count_nonzero(chunk < moment))
    return n_before


def oldest_rows(times: Times, n_oldest: int) -> tuple[int, int]:
    """Returns `(moment, n_ties)`: the oldest rows are those before `moment` and the first `n_ties` rows at it.

    The rows are the ones a stable sort would put first. The moment is found by halving the range of times.

    Example:
        >>> oldest_rows(np.array([30, 10, 20, 10, 20, 20]), 4)
        (20, 2)
    """
    if n_oldest >= len(times):
        return max((int(chunk.max()) + 1 for chunk in _chunks(times)), default=0), 0
    low = min(int(chunk.min()) for chunk in _chunks(times))
    high = max(int(chunk.max()) for chunk in _chunks(times))
    while low < high:
        middle = (low + high + 1) // 2
        if count_before(times, middle) <= n_oldest:
            low = middle
        else:
            high = middle - 1
    return low, n_oldest - count_before(times, low)


def sort_by_time(arrays: Sequence[ArrayFile], times: Times, bar: Progress | None = None) -> None:
    """Writes array files anew with rows in time order, beside the old ones; rows at the same time keep their order.

    Rows are dealt to buckets of neighbouring times, then every bucket is sorted by itself. A bucket holds about a
    million rows, or one single moment, which needs no sorting.

    Arguments:
        arrays: Files with one entry per row, the times among them.
        times: The times before sorting, one per row.
        bar: Advanced by every row of every array, twice: when it is dealt and when its bucket is sorted.

    The result of each array lies at its `sorted_path`, so that the caller can exchange all of them at one point.
    """
    edges = _bucket_edges(times)
    sizes = np.zeros(len(edges) + 1, dtype=np.int64)
    for chunk in _chunks(times):
        sizes += np.bincount(np.searchsorted(edges, chunk, side="right"), minlength=len(sizes))
    starts = np.concatenate(([0], np.cumsum(sizes)))
    for array in arrays:
        _deal(array, times, edges, starts)
        if bar is not None:
            bar.advance(len(times))
    sorted_times = next(array for array in arrays if array.name == "time").sorted_path
    for bucket in range(len(sizes)):
        _sort_bucket(arrays, sorted_times, int(starts[bucket]), int(starts[bucket + 1]))
        if bar is not None:
            bar.advance(len(arrays) * int(sizes[bucket]))


def _chunks(times: Times) -> Iterator[Times]:
    for start in range(0, len(times), _CHUNK_ROWS):
        yield times[start : start + _CHUNK_ROWS]
        release_pages(times)


def _bucket_edges(times: Times) -> NDArray[np.int64]:
    """Moments that cut the log into buckets of about equal size; a moment with very many rows gets its own."""
    sample = np.sort(np.asarray(times[:: max(len(times) // _SAMPLES, 1)]))
    n_buckets = -(-len(times) // _BUCKET_ROWS)
    cuts = sample[(np.arange(1, n_buckets) * len(sample)) // n_buckets]
    repeated = cuts[1:][cuts[1:] == cuts[:-1]]
    return np.unique(np.concatenate((cuts, repeated + 1)))


def _deal(array: ArrayFile, times: Times, edges: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
    rows = array.map()
    cursor = starts[:-1].copy()
    with array.create(array.sorted_path) as sink:
        for start in range(0, len(times), _CHUNK_ROWS):
            bucket = np.searchsorted(edges, times[start : start + _CHUNK_ROWS], side="right")
            order = np.argsort(bucket, kind="stable")
            piece = rows[start : start + _CHUNK_ROWS][order]
            counts = np.bincount(bucket, minlength=len(cursor))
            ends = np.cumsum(counts)
            for index in np.flatnonzero(counts).tolist():
                array.write_at(sink, int(cursor[index]), piece[ends[index] - counts[index] : ends[index]])
            cursor += counts
            release_pages(rows)
            release_pages(times)


def _sort_bucket(arrays: Sequence[ArrayFile], times_path: Path, start: int, stop: int) -> None:
    moments: NDArray[Any] = np.load(times_path, mmap_mode="r")[start:stop]
    if is_sorted(moments):
        return
    order = np.argsort(moments, kind="stable")
    for array in arrays:
        piece = np.load(array.sorted_path, mmap_mode="r")[start:stop][order]
        with array.sorted_path.open("r+b") as sink:
            array.write_at(sink, start, piece)
