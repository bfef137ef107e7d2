"""Work shared by threads without changing the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import torch

Run = Callable[[Callable[[Any, Any], None], Iterable[Any]], None]


@contextmanager
def workers(n_threads: int, make_workspace: Callable[[], Any]) -> Iterator[Run]:
    """Yields `run(job, items)`, which calls `job(item, workspace)` for every item on a few threads and waits.

    Each thread multiplies matrices on its own (torch is set to one thread meanwhile and set back afterwards), so what
    an item computes does not depend on how many threads there are; and threads do not wait for each other inside
    every product, which matters on a machine that is busy with other things.

    Arguments:
        n_threads: How many threads.
        make_workspace: Makes the buffers one thread needs.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    spaces: SimpleQueue[Any] = SimpleQueue()
    for _ in range(n_threads):
        spaces.put(make_workspace())
    try:
        with ThreadPoolExecutor(n_threads) as pool:

            def run(job: Callable[[Any, Any], None], items: Iterable[Any]) -> None:
                def with_space(item: Any) -> None:
                    space = spaces.get()
                    try:
                        job(item, space)
                    finally:
                        spaces.put(space)

                for _done in pool.map(with_space, items):
                    pass

            yield run
    finally:
        torch.set_num_threads(before)
