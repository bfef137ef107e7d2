"""Mini-batches from arrays or memory maps of any size, in their order or shuffled block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.process import release_pages

BLOCK_ROWS = 4_096
"""Rows read in one go: large enough for sequential reading, small enough to mix well."""

WINDOW_ROWS = 262_144
"""Rows mixed at a time; with 21 fields this is 22 MB of ids."""

Columns = Mapping[str, NDArray[Any]]


def batches_in_order(columns: Columns, batch_rows: int) -> Iterator[dict[str, NDArray[Any]]]:
    """Yields rows in their order as views, with their numbers under `rows`.

    Example:
        >>> for batch in batches_in_order({"x": np.arange(5) / 2}, 3):
        ...     print(batch["x"].tolist(), batch["rows"].tolist())
        [0.0, 0.5, 1.0] [0, 1, 2]
        [1.5, 2.0] [3, 4]
    """
    n_rows = len(next(iter(columns.values())))
    for start in range(0, n_rows, batch_rows):
        end = min(start + batch_rows, n_rows)
        batch = {name: np.asarray(column[start:end]) for name, column in columns.items()}
        yield {**batch, "rows": np.arange(start, end)}
        if end // WINDOW_ROWS > start // WINDOW_ROWS:
            _release(columns)


def shuffled_batches(columns: Columns, batch_rows: int, *, seed: int, epoch: int) -> Iterator[dict[str, NDArray[Any]]]:
    """Yields every row exactly once, with its number under `rows`; the last batch may be shorter.

    Blocks of consecutive rows are drawn in random order, a window of them is read at a time, and rows are mixed within
    the window: reading stays sequential and memory stays that of one window. The same (seed, epoch) gives the same
    batches; the global random generator is untouched.

    Example:
        >>> columns = {"x": np.arange(5)}
        >>> sorted(int(x) for batch in shuffled_batches(columns, 2, seed=1, epoch=0) for x in batch["x"])
        [0, 1, 2, 3, 4]
    """
    n_rows = len(next(iter(columns.values())))
    # a window holds whole batches, so that only the very last batch of an epoch is short
    window = max(WINDOW_ROWS // batch_rows, 1) * batch_rows
    generator = np.random.default_rng([seed, epoch])
    starts = generator.permutation(np.arange(0, n_rows, min(BLOCK_ROWS, window)))
    lengths = np.minimum(starts + min(BLOCK_ROWS, window), n_rows) - starts
    ends = np.cumsum(lengths)
    for first in range(0, n_rows, window):
        # the part of every block that lies in the window when blocks are laid in their drawn order
        begins = starts + np.clip(first - (ends - lengths), 0, lengths)
        stops = starts + np.clip(first + window - (ends - lengths), 0, lengths)
        pieces = [slice(begins[block], stops[block]) for block in np.flatnonzero(begins < stops)]
        held = {name: np.concatenate([column[piece] for piece in pieces]) for name, column in columns.items()}
        held["rows"] = np.concatenate([np.arange(piece.start, piece.stop) for piece in pieces])
        _release(columns)
        order = generator.permutation(len(held["rows"]))
        for start in range(0, len(order), batch_rows):
            chosen = order[start : start + batch_rows]
            yield {name: column.take(chosen, axis=0) for name, column in held.items()}


def _release(columns: Columns) -> None:
    for column in columns.values():
        release_pages(column)
