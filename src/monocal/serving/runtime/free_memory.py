"""Memory that was freed, back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_memory_back() -> None:
    """Asks the C library to release freed memory; without this a worker stays as large as its largest moment.

    Other C libraries than glibc have no such call and nothing is done.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
