"""Freed memory goes back to the system; allocators would keep it for the next who asks."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any


def give_back_freed_memory() -> None:
    """Returns to the system what Arrow and the C library hold without anybody using it.

    A table is read in batches, which leave holes of some MiB each between what stays: after two million rows with 21
    fields more than was kept. Large arrays that follow do not fit into these holes, so a fit would have its peak on top
    of them. Nothing that is in use moves; where the C library has no such call, its holes stay,
    and older releases of Arrow keep what their threads freed.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    trim = _trim_of_c_library()
    if trim is not None:
        trim(0)


@cache
def _trim_of_c_library() -> Any | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
