"""This process while it works: threads that share rows, memory that is given back, progress that is shown.

The result of a step is the same for any number of threads that share its rows, and whether somebody watches or not.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import Any, final

from numpy.typing import NDArray

_allowed: ContextVar[int] = ContextVar("monocal_threads", default=1)

MapPieces = Callable[..., Iterator[Any]]
"""Takes a function and columns of its arguments, as `map` does."""


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
def row_workers() -> Iterator[MapPieces]:
    """Yields what `map` is, with several calls at once where that is allowed; its results are read inside.

    Example:
        >>> with row_workers() as map_pieces:
        ...     list(map_pieces(abs, [-1, 2]))
        [1, 2]
    """
    n_threads = allowed_threads()
    if n_threads < 2:
        yield map
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="monocal-rows") as pool:
        yield pool.map


class _BlasLimit:
    """How many blocks want one thread per matrix product, and what the last of them restores."""

    lock = Lock()
    n_inside = 0
    borrowed: Any = None


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
    with _BlasLimit.lock:
        if _BlasLimit.n_inside == 0:
            _BlasLimit.borrowed = _blas_libraries().limit(limits=1)
            _release_control()
        _BlasLimit.n_inside += 1
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.n_inside -= 1
            if _BlasLimit.n_inside == 0:
                _BlasLimit.borrowed.restore_original_limits()
                _release_control()


@cache
def _blas_libraries() -> Any:
    """Finds the libraries once, which takes a millisecond; both have theirs loaded by then."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


def _release_control() -> None:
    """Lets any thread set the number next: newer versions of threadpoolctl listen to the one that did so first."""
    from threadpoolctl import OpenBLASController

    getattr(OpenBLASController, "clear_controlling_thread", lambda: None)()


def trim_heap() -> None:
    """Returns to the system what Arrow and the C library hold without anybody using it.

    A table is read in batches, which leave holes of some MiB each between what stays: after two million rows with 21
    fields more than was kept. Large arrays that follow do not fit into these holes, so a fit would have its peak on top
    of them. Nothing that is in use moves; where the C library has no such call, its holes stay.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Any | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None


def release_pages(array: NDArray[Any]) -> None:
    """Hands the memory of a file-backed map back to the system; the data stay readable from the file.

    Without it the resident memory of a long pass over a map grows to the size of the file. What was written to a map
    that the file shares is in the file's own pages and stays; a private copy would be lost, so it is left alone.
    """
    mapped = getattr(array, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and getattr(array, "mode", "r") != "c":
        with suppress(ValueError, OSError):
            mapped.madvise(mmap.MADV_DONTNEED)


# Progress bars for anything that takes more than a few seconds; silent when nobody watches

_display: Any = None
"""The display that is shown; a step inside another one adds its line there."""


@final
class Progress:
    """What a long step reports to.

    Arguments:
        bars: The display; None for a silent bar.
        task: The number of its line there.
    """

    def __init__(self, bars: Any = None, task: Any = None) -> None:
        self._bars, self._task = bars, task

    def advance(self, amount: int) -> None:
        """Says that `amount` more units are done."""
        if self._bars is not None:
            self._bars.advance(self._task, amount)

    def note(self, text: str) -> None:
        """Shows a short remark beside the bar, such as the current loss."""
        if self._bars is not None:
            self._bars.update(self._task, note=text)


def _is_watched() -> bool:
    """Whether somebody sees a bar: at a terminal, or in a notebook that can draw one."""
    if sys.stderr.isatty():
        return True
    notebook = sys.modules.get("IPython")  # there only where it runs already
    shell = None if notebook is None else notebook.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell" and find_spec("ipywidgets") is not None


@contextmanager
def progress(label: str, total: int | None, unit: str = "rows", show: bool | None = None) -> Iterator[Progress]:
    """Yields a bar with the time left on standard error; a silent one when that is no terminal and no notebook.

    Arguments:
        label: What is being done, a few words.
        total: How many units there are, or None if unknown.
        unit: What is counted.
        show: True or False to decide; None asks whether standard error is a terminal, or this a notebook with
            `ipywidgets`.

    Example:
        >>> with progress("counting", 3, show=False) as bar:
        ...     bar.advance(3)
    """
    global _display
    if show is False or (show is None and not _is_watched()):
        yield Progress()
        return
    if _display is not None:
        task = _display.add_task(label, total=total, note="", unit=unit)
        try:
            yield Progress(_display, task)
        finally:
            _display.remove_task(task)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}"),
    )
    with Display(*columns, console=Console(stderr=True), transient=True) as _display:
        try:
            yield Progress(_display, _display.add_task(label, total=total, note="", unit=unit))
        finally:
            _display = None
