"""Locks on folders, by which writers take turns and know whether another writer is still alive.

The system itself gives a lock back when its owner ends, however it ends. Locks are on the folders that are there
anyway, so no lock files are left behind. On a system without them (or on a network file system that refuses them)
writers do not wait for each other; every single write is atomic all the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from monocal.core.errors import MonocalError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.002

T = TypeVar("T")

_private_folders: set[str] = set()


def hold(path: Path) -> int | None:
    """Takes the lock of a file or folder and returns its descriptor, to be closed later; None if another has it."""
    descriptor = os.open(path, os.O_RDONLY)
    if fcntl is None:
        return descriptor
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        pass  # no locks here: go on without
    return descriptor


def hold_private(folder: Path) -> Callable[[], None] | None:
    """Takes a folder in which this process alone writes; returns what gives it back, or None if another has it.

    Its lock tells others that the owner is alive. Writes inside it need no turns.
    """
    descriptor = hold(folder)
    if descriptor is None:
        return None
    name = os.path.abspath(folder)
    _private_folders.add(name)

    def give_back() -> None:
        _private_folders.discard(name)
        os.close(descriptor)

    return give_back


@contextmanager
def turn_in(folder: Path, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Waits until no other writer is changing the entries of a folder, and keeps others waiting during the block.

    The block should last milliseconds: rename, remove, look around.
    """
    if os.path.abspath(folder) in _private_folders:
        yield
        return
    descriptor = _wait(hold, folder, patience_seconds)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def alone_in(folder: Path, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Like `turn_in`, for a block that reads a file of the folder and replaces it by what follows from it.

    Atomic writes into the folder inside the block take no turn of their own.
    """
    give_back = _wait(hold_private, folder, patience_seconds)
    try:
        yield
    finally:
        give_back()


def _wait(take: Callable[[Path], T | None], folder: Path, patience_seconds: float) -> T:
    deadline = time.monotonic() + patience_seconds
    while (taken := take(folder)) is None:
        if time.monotonic() > deadline:
            raise MonocalError(
                f"{folder}: another process has kept this folder locked for {patience_seconds:.0f} seconds; nothing "
                "was written. Hint: end that process, or write to another folder"
            )
        time.sleep(_LOOK_SECONDS)
    return taken
