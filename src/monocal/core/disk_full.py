"""One error for a full disk, whichever library met it."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monocal.core.errors import DiskFull

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# safetensors gives the number in its text, numpy says how much it could write, pyarrow uses both
_TEXTS = re.compile(
    r"os error (?:{0})\b|errno (?:{0})\b|No space left on device|File too large|\d+ requested and \d+ written".format(
        "|".join(map(str, _NUMBERS))
    ),
    re.IGNORECASE,
)


@contextmanager
def naming_disk_full(target: str | Path, hint: str = "") -> Iterator[None]:
    """Turns whatever the block raises because a disk is full (or a quota or size limit reached) into `DiskFull`.

    Of blocks in blocks the outermost names what was being written: that is what the caller asked for.

    Arguments:
        target: What was being written.
        hint: What to do, if it is not simply to free space and try again.

    Example:
        >>> with naming_disk_full("model"):
        ...     raise OSError(28, "No space left on device")
        Traceback (most recent call last):
        ...
        monocal.core.errors.DiskFull: disk full while writing 'model'; nothing was replaced. Hint: free space ...
    """
    try:
        yield
    except Exception as error:
        if not is_disk_full(error):
            raise
        advice = hint or "free space there, raise the quota or file size limit, or write to another disk"
        raise DiskFull(f"disk full while writing {str(target)!r}; nothing was replaced. Hint: {advice}.") from error


def is_disk_full(error: BaseException) -> bool:
    """Says whether an error means that there was no room to write.

    Example:
        >>> is_disk_full(OSError("4096 requested and 512 written")), is_disk_full(ValueError("too large"))
        (True, False)
    """
    if isinstance(error, DiskFull):
        return True
    return getattr(error, "errno", None) in _NUMBERS or _TEXTS.search(str(error)) is not None
