"""Mini-batches from arrays or memory maps of any size, shuffled block by block."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput

BLOCK_ROWS = 4_096
"""Rows read in one go: large enough for sequential reading, small enough to mix well."""

WINDOW_ROWS = 262_144
"""Rows mixed at a time; with 21 fields this is 22 MB of ids."""

Columns = Mapping[str, NDArray[Any]]


def iterate_batches(
    columns: Columns,
    batch_rows: int,
    *,
    seed: int | None = None,
    epoch: int = 0,
    with_rows: bool = False,
    drop_last: bool = False,
    block_rows: int = BLOCK_ROWS,
    window_rows: int = WINDOW_ROWS,
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yields every row exactly once, in batches of `batch_rows`; the last one may be shorter.

    With a seed, blocks of consecutive rows are drawn in random order, a window of them is read at a time, and
    rows are mixed within the window: reading stays sequential and memory stays that of one window. The same
    (seed, epoch) gives the same batches; the global random generator is untouched. Without a seed, rows come in
    their order as views.

    Arguments:
        columns: Arrays or memory maps with the same number of rows (the first dimension).
        batch_rows: Rows per batch.
        seed: None keeps the order; a number shuffles.
        epoch: Another epoch, another order.
        with_rows: Adds the row numbers under the key "rows".
        drop_last: Leaves out the last batch if it is short.
        block_rows: Consecutive rows that are read together.
        window_rows: Rows that are mixed together.

    Example:
        >>> for batch in iterate_batches({"x": np.arange(5)}, 2):
        ...     print(batch["x"].tolist())
        [0, 1]
        [2, 3]
        [4]
        >>> sorted(int(x) for batch in iterate_batches({"x": np.arange(5)}, 2, seed=1) for x in batch["x"])
        [0, 1, 2, 3, 4]
    """
    n_rows = _check(columns, batch_rows, block_rows, window_rows)
    stop = n_rows - n_rows % batch_rows if drop_last else n_rows
    if seed is None:
        return _in_order(columns, batch_rows, stop, with_rows)
    # a window holds whole batches, so that only the very last batch of an epoch is short
    window = max(window_rows // batch_rows, 1) * batch_rows
    generator = np.random.default_rng([seed, epoch])
    return _shuffled(columns, batch_rows, n_rows, stop, with_rows, min(block_rows, window), window, generator)


def _in_order(columns: Columns, batch_rows: int, stop: int, with_rows: bool) -> Iterator[dict[str, NDArray[Any]]]:
    for start in range(0, stop, batch_rows):
        end = min(start + batch_rows, stop)
        batch = {name: np.asarray(column[start:end]) for name, column in columns.items()}
        if with_rows:
            batch["rows"] = np.arange(start, end)
        yield batch
        if end // WINDOW_ROWS > start // WINDOW_ROWS:
            _release(columns)


def _shuffled(
    columns: Columns,
    batch_rows: int,
    n_rows: int,
    stop: int,
    with_rows: bool,
    block_rows: int,
    window_rows: int,
    generator: np.random.Generator,
) -> Iterator[dict[str, NDArray[Any]]]:
    starts = generator.permutation(np.arange(0, n_rows, block_rows))
    lengths = np.minimum(starts + block_rows, n_rows) - starts
    ends = np.cumsum(lengths)
    for first in range(0, n_rows, window_rows):
        pieces = _pieces(starts, lengths, ends, first, min(first + window_rows, n_rows))
        held = {name: np.concatenate([column[p] for p in pieces]) for name, column in columns.items()}
        if with_rows:
            held["rows"] = np.concatenate([np.arange(p.start, p.stop) for p in pieces])
        _release(columns)
        n_held = sum(p.stop - p.start for p in pieces)
        order = generator.permutation(n_held)
        for start in range(0, min(n_held, stop - first), batch_rows):
            chosen = order[start : start + batch_rows]
            yield {name: column.take(chosen, axis=0) for name, column in held.items()}


def _pieces(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], ends: NDArray[np.int64], first: int, last: int
) -> list[slice]:
    """The row ranges that lie between `first` and `last` when the blocks are laid in their drawn order."""
    low = int(np.searchsorted(ends, first, side="right"))
    high = int(np.searchsorted(ends, last, side="left"))
    pieces = []
    for block in range(low, high + 1):
        before = int(ends[block] - lengths[block])
        begin, end = max(first - before, 0), min(last - before, int(lengths[block]))
        pieces.append(slice(int(starts[block]) + begin, int(starts[block]) + end))
    return pieces


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


def _check(columns: Columns, batch_rows: int, block_rows: int, window_rows: int) -> int:
    for name, size in {"batch_rows": batch_rows, "block_rows": block_rows, "window_rows": window_rows}.items():
        if size < 1:
            raise InvalidInput.of(name, size, "at least 1 row", "use the default")
    lengths = {name: len(column) for name, column in columns.items()}
    if not lengths:
        raise InvalidInput.of("columns", "no column", "at least one array", "pass the features")
    if len(set(lengths.values())) > 1:
        raise InvalidInput.of("columns", f"lengths {lengths}", "the same number of rows", "slice them alike")
    if "rows" in columns:
        raise InvalidInput.of("columns", "the name 'rows'", "any other name", "rename it; it stands for row numbers")
    return next(iter(lengths.values()))
