"""Chunks of rows shared by threads without changing the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from monocal.training.threads import torch_threads

CHUNK_ROWS = 2_048
"""Rows that go through a network at a time: their activations stay in the cache, their products are large enough."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """A few threads that share items of work; see `workers`."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def map(self, job: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Returns `job(item)` of every item, in the order of the items."""
        return list(self._pool.map(job, items))


@contextmanager
def workers(n_threads: int) -> Iterator[Workers]:
    """Yields threads each of which multiplies matrices on its own.

    Torch is set to one thread meanwhile, so what an item computes does not depend on how many threads there are; and
    threads do not wait for each other inside every product, which matters on a machine that is busy.

    Example:
        >>> with workers(2) as crew:
        ...     crew.map(lambda number: number * number, [1, 2, 3])
        [1, 4, 9]
    """
    # the number of threads of a matrix product belongs to the thread that asks for it
    with torch_threads(1), ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield Workers(pool)


def chunks(n_rows: int) -> list[slice]:
    """Returns consecutive ranges of at most `CHUNK_ROWS` rows.

    Example:
        >>> chunks(5000)
        [slice(0, 2048, None), slice(2048, 4096, None), slice(4096, 5000, None)]
    """
    return [slice(start, min(start + CHUNK_ROWS, n_rows)) for start in range(0, n_rows, CHUNK_ROWS)]
