"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_file(target: str | Path) -> Iterator[Path]:
    """Yields a temporary path beside `target`; on success it is synced and renamed, on any error removed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_file(Path(folder) / "a.txt") as temporary:
        ...         _ = temporary.write_text("whole")
        ...     (Path(folder) / "a.txt").read_text()
        'whole'
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part" + target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _open_to_readers(temporary)
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


@contextmanager
def atomic_folder(target: str | Path) -> Iterator[Path]:
    """Yields a temporary folder beside `target`; on success its files are synced and it takes `target`'s place.

    An existing folder at `target` is moved aside first and deleted last, so a reader finds the old one,
    the new one, or for an instant none, but never a mixture.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield temporary
        publish_folder(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def publish_folder(temporary: Path, target: Path) -> None:
    """Syncs the files of a finished folder and gives it the place of `target` (same file system).

    An existing folder at `target` is moved aside first and deleted last.
    """
    temporary.chmod(0o777 & ~_umask())
    for path in sorted(temporary.rglob("*")):
        if path.is_file():
            _sync(path)
    _sync(temporary)
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
        target.replace(old / "was")
        temporary.replace(target)
        shutil.rmtree(old)
    else:
        temporary.replace(target)
    _sync(target.parent)


def _open_to_readers(path: Path) -> None:
    path.chmod(0o666 & ~_umask())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
