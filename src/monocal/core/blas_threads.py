"""The number of threads of numpy's and scipy's matrix products as something borrowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, final


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Lets matrix products inside have one thread, and restores their number at the end, also after an error.

    Sums of products depend on the number of threads, so without it a fit would have other last digits, and a network
    trained on top of them other fourth digits, on a machine with more cores. Threads of a product also wait for each
    other by spinning: for small products on a busy machine that takes more CPU time than the products.

    The number belongs to the process, so blocks that run at the same time share one limit, which the last one lifts.

    Example:
        >>> from threadpoolctl import threadpool_info
        >>> with one_blas_thread():
        ...     {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}
        {1}
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


@final
class _Limit:
    """How many blocks are inside, and what the last of them restores."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_inside = 0
        self._set: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._set = _libraries().limit(limits=1)
                _release()
            self._n_inside += 1

    def leave(self) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._set.restore_original_limits()
                _release()


_limit = _Limit()


@cache
def _libraries() -> Any:
    """Finds the libraries once, which takes a millisecond; both have theirs loaded by then."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


def _release() -> None:
    """Lets any thread set the number next: newer versions of threadpoolctl listen to the one that did so first."""
    from threadpoolctl import OpenBLASController

    getattr(OpenBLASController, "clear_controlling_thread", lambda: None)()
