"""Mini-batches from arrays or memory maps of any size, shuffled block by block."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS = 4_096
"""Rows read in one go: large enough for sequential reading, small enough to mix well."""

WINDOW_ROWS = 262_144
"""Rows mixed at a time; with 21 fields this is 22 MB of ids."""

Columns = Mapping[str, NDArray[Any]]


def iterate_batches(
    columns: Columns, batch_rows: int, *, seed: int | None = None, epoch: int = 0
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yields every row exactly once, in batches of `batch_rows` with their row numbers under the key "rows".

    Only the last batch may be shorter. With a seed, blocks of consecutive rows are drawn in random order, a window of
    them is read at a time, and rows are mixed within the window: reading stays sequential and memory stays that of one
    window. The same (seed, epoch) gives the same batches; the global random generator is untouched. Without a seed,
    rows come in their order as views.

    Arguments:
        columns: Arrays or memory maps with the same number of rows (the first dimension).
        batch_rows: Rows per batch.
        seed: None keeps the order; a number shuffles.
        epoch: Another epoch, another order.

    Example:
        >>> for batch in iterate_batches({"x": np.arange(5)}, 2):
        ...     print(batch["x"].tolist())
        [0, 1]
        [2, 3]
        [4]
        >>> sorted(int(x) for batch in iterate_batches({"x": np.arange(5)}, 2, seed=1) for x in batch["x"])
        [0, 1, 2, 3, 4]
    """
    n_rows = len(next(iter(columns.values())))
    if seed is None:
        return _in_order(columns, batch_rows, n_rows)
    return _shuffled(columns, batch_rows, n_rows, np.random.default_rng([seed, epoch]))


def _in_order(columns: Columns, batch_rows: int, n_rows: int) -> Iterator[dict[str, NDArray[Any]]]:
    for start in range(0, n_rows, batch_rows):
        end = min(start + batch_rows, n_rows)
        batch = {name: np.asarray(column[start:end]) for name, column in columns.items()}
        yield {**batch, "rows": np.arange(start, end)}
        if end // WINDOW_ROWS > start // WINDOW_ROWS:
            _release(columns)


def _shuffled(
    columns: Columns, batch_rows: int, n_rows: int, generator: np.random.Generator
) -> Iterator[dict[str, NDArray[Any]]]:
    # a window holds whole batches, so that only the very last batch of an epoch is short
    window_rows = max(WINDOW_ROWS // batch_rows, 1) * batch_rows
    block_rows = min(BLOCK_ROWS, window_rows)
    starts = generator.permutation(np.arange(0, n_rows, block_rows))
    # where each block begins and ends when they are laid in their drawn order
    ends = np.cumsum(np.minimum(starts + block_rows, n_rows) - starts)
    begins = np.concatenate([[0], ends[:-1]])
    for first in range(0, n_rows, window_rows):
        last = min(first + window_rows, n_rows)
        pieces = [
            slice(starts[k] + max(first - begins[k], 0), starts[k] + min(last, ends[k]) - begins[k])
            for k in np.flatnonzero((ends > first) & (begins < last))
        ]
        held = {name: np.concatenate([column[piece] for piece in pieces]) for name, column in columns.items()}
        held["rows"] = np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces])
        _release(columns)
        order = generator.permutation(last - first)
        for start in range(0, last - first, batch_rows):
            chosen = order[start : start + batch_rows]
            yield {name: column.take(chosen, axis=0) for name, column in held.items()}


def release_pages(array: NDArray[Any]) -> None:
    """Hands the memory of a file-backed map back to the system; the data stay readable from the file.

    Without it the resident memory of a long pass over a map grows to the size of the file. What was written to a map
    that the file shares is in the file's own pages and stays; a private copy would be lost, so it is left alone.
    """
    mapped = getattr(array, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and getattr(array, "mode", "r") != "c":
        with suppress(ValueError, OSError):
            mapped.madvise(mmap.MADV_DONTNEED)


def _release(columns: Columns) -> None:
    for column in columns.values():
        release_pages(column)
