"""Locks by which writers take turns and know whether another writer is still alive.

They are the system's own, on the folders and files themselves: no lock files are left behind, and a lock ends with its
owner, however that ends. On a system without them (Windows, some network file systems) writers do not wait for each
other; every single write is atomic all the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from monocal.core.errors import MonocalError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

PATIENCE_SECONDS = 120.0
"""How long a writer waits for its turn."""

_LOOK_SECONDS = 0.002

_held: ContextVar[frozenset[str]] = ContextVar("monocal_turns", default=frozenset())


@contextmanager
def turn_in(place: Path, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Waits until nobody else writes in a folder or file, and keeps others waiting during the block.

    Inside the block the thread that has the turn may take it again.
    """
    name = os.path.realpath(place)
    if name in _held.get():
        yield
        return
    deadline = time.monotonic() + patience_seconds
    while (descriptor := _lock(place)) is None:
        if time.monotonic() > deadline:
            raise MonocalError(
                f"{place}: another process has kept this place locked for {patience_seconds:.0f} seconds; nothing "
                "was written. Hint: end that process, or write to another folder"
            )
        time.sleep(_LOOK_SECONDS)
    _held.set(_held.get() | {name})
    try:
        yield
    finally:
        _held.set(_held.get() - {name})
        if descriptor >= 0:
            os.close(descriptor)


def is_abandoned(place: Path) -> bool:
    """Whether the writer of a temporary file or folder has ended; False where the system cannot say."""
    try:
        descriptor = _lock(place)
    except OSError:
        return False
    if descriptor is None or descriptor < 0:
        return False
    os.close(descriptor)
    return True


def _lock(place: Path) -> int | None:
    """Returns a descriptor that holds the lock of a place until it is closed, −1 without locks; None if it is taken."""
    if fcntl is None:
        return -1
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        pass  # a file system without locks: go on without
    return descriptor
