"""Files that are there whole or not at all."""

from __future__ import annotations

import glob
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from monocal.core.disk_full import naming_disk_full
from monocal.core.errors import InvalidInput
from monocal.core.locks import hold, turn_in
from monocal.core.outputs import local_path
from monocal.core.uris import is_uri


@contextmanager
def atomic_file(target: str | Path) -> Iterator[Path]:
    """Yields a temporary path beside `target`; on success it is synced and renamed, on any error removed.

    What an earlier writer of the same file left when it was killed is removed first. A full disk is a `DiskFull`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_file(Path(folder) / "a.txt") as temporary:
        ...         _ = temporary.write_text("whole")
        ...     (Path(folder) / "a.txt").read_text()
        'whole'
    """
    target = local_path(target, "output file")
    with naming_disk_full(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        ending = ".part" + target.suffix
        with turn_in(target.parent):
            remove_leftover_files(target.parent, target.name, ending)
            temporary = unused_name(target, ending)
            # the mode of any new file, as the umask and the folder have it
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            mode = temporary.stat().st_mode & 0o666
            lock = hold(temporary)
        try:
            yield temporary
            # a library may have put a file of its own in this place, readable by nobody else
            temporary.chmod(mode)
            sync(temporary)
            temporary.replace(target)
            sync(target.parent)
        except BaseException:
            with suppress(FileNotFoundError):
                temporary.unlink()
            raise
        finally:
            if lock is not None:
                os.close(lock)


def check_output(target: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuses to write a file over one of the inputs, under whatever name, or into a folder that is an input.

    An input that is not there by its own name is taken as a glob.
    """
    place = local_path(target, "output file").resolve()
    for given in inputs:
        if is_uri(given) and not given.startswith("file:"):
            continue
        given = local_path(given)
        if not given.exists():
            check_output(target, glob.glob(str(given), recursive=True))
            continue
        path = given.resolve()
        is_same = path == place or (place.exists() and path.exists() and place.samefile(path))
        if is_same or (path.is_dir() and path in place.parents):
            raise InvalidInput.of(
                "output file",
                repr(str(target)),
                "a file other than the input",
                "write to a new file, then replace the old",
            )


def sync(path: Path) -> None:
    """Makes sure that a file's contents, or a folder's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unused_name(target: Path, ending: str) -> Path:
    """Returns a hidden name beside `target` that nobody uses and by which `leftovers` finds it again."""
    return target.parent / f".{target.name}.{secrets.token_hex(4)}{ending}"


def leftovers(parent: Path, name: str, ending: str) -> list[Path]:
    """Returns what stands beside `parent/name` under names of `unused_name`."""
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}{re.escape(ending)}")
    return sorted(parent / entry for entry in os.listdir(parent) if pattern.fullmatch(entry))


def remove_leftover_files(parent: Path, name: str, ending: str) -> None:
    """Removes temporary files whose writer is dead; to be called in a `turn_in` of the folder."""
    for path in leftovers(parent, name, ending):
        with suppress(OSError):
            lock = hold(path)
            if lock is not None:
                path.unlink()
                os.close(lock)
