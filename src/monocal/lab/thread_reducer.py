"""A reducer without processes: members are threads, and every byte that they would send is counted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


@final
class ThreadReducer:
    """One member of a reducer of threads.

    Attributes:
        rank: Which member it is.
        size: How many there are.
        n_reductions: How often it added up or compared numbers with the others.
        n_bytes: How many bytes it gave into these reductions.
    """

    def __init__(self, rank: int, size: int, shared: dict[Any, Any]) -> None:
        self.rank, self.size, self._shared = rank, size, shared
        self.n_reductions = self.n_bytes = 0

    def all_sum(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._reduced(numbers, lambda parts: np.sum(parts, axis=0))

    def all_max(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._reduced(numbers, lambda parts: np.max(parts, axis=0))

    def _reduced(self, numbers: NDArray[Any], how: Callable[[list[Any]], Any]) -> NDArray[Any]:
        self.n_reductions += 1
        self.n_bytes += numbers.nbytes
        barrier: Barrier = self._shared["barrier"]
        self._shared[self.rank] = numbers
        barrier.wait()
        result: NDArray[Any] = how([self._shared[rank] for rank in range(self.size)])
        barrier.wait()
        return result


def run_members(size: int, work: Callable[[ThreadReducer], T]) -> list[T]:
    """Lets every member do the same work on its own part and returns what each found.

    Example:
        >>> [int(counts[0]) for counts in run_members(3, lambda reducer: reducer.all_sum(np.array([reducer.rank])))]
        [3, 3, 3]
    """
    shared: dict[Any, Any] = {"barrier": Barrier(size)}

    def member(rank: int) -> T:
        try:
            return work(ThreadReducer(rank, size, shared))
        except BaseException:
            shared["barrier"].abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        members = [pool.submit(member, rank) for rank in range(size)]
    failed = [member.exception() for member in members if member.exception() is not None]
    # who waited for a member that failed knows nothing of the reason
    for error in sorted(failed, key=lambda error: isinstance(error, BrokenBarrierError)):
        raise error  # type: ignore[misc]
    return [member.result() for member in members]
