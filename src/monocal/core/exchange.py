"""Two folders change places in one step, where the system can do that."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_HERE = -100
_LINUX_EXCHANGE = 2
_MACOS_SWAP = 2
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV, errno.EPERM)


def exchange(path: Path, other: Path) -> bool:
    """Lets two paths change places, so that at no moment either is missing; False if the system cannot.

    `renameat2` with `RENAME_EXCHANGE` on Linux (ext4, xfs, btrfs, tmpfs and others), `renamex_np` on macOS.
    """
    call = _system_call()
    if call is None:
        return False
    if call(os.fsencode(path), os.fsencode(other)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))


@cache
def _system_call() -> Any:
    if sys.platform == "win32":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):
        return lambda path, other: library.renameat2(_HERE, path, _HERE, other, _LINUX_EXCHANGE)
    if hasattr(library, "renamex_np"):
        return lambda path, other: library.renamex_np(path, other, _MACOS_SWAP)
    return None
