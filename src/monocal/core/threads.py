"""How many threads share the rows of a step; the result is the same for any number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_allowed: ContextVar[int] = ContextVar("monocal_threads", default=1)

Result = TypeVar("Result")


@contextmanager
def threads_for_rows(n_threads: int) -> Iterator[None]:
    """Lets steps inside share their rows among so many threads. Threads that are started inside have one again.

    Example:
        >>> with threads_for_rows(2):
        ...     allowed_threads()
        2
        >>> allowed_threads()
        1
    """
    token = _allowed.set(n_threads)
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed_threads() -> int:
    """Returns how many threads may share a step's rows here; 1 unless somebody said otherwise."""
    return _allowed.get()


def usable_cores() -> int:
    """Returns how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def row_workers() -> Iterator[Callable[[Sequence[Callable[[], Result]]], list[Result]]]:
    """Yields a function that does jobs, several at once where that is allowed, and returns their results in order.

    Example:
        >>> with row_workers() as do_all:
        ...     do_all([lambda: 1, lambda: 2])
        [1, 2]
    """
    n_threads = allowed_threads()
    if n_threads < 2:
        yield lambda jobs: [job() for job in jobs]
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="monocal-rows") as pool:
        yield lambda jobs: list(pool.map(lambda job: job(), jobs))
