"""Folders that are there whole or not at all, and that never take the place of somebody else's.

A new folder is written beside its place, and renamed into it after the old one was renamed out of it. Whoever is killed
between the two renames leaves the old folder under a hidden name, from which the next writer or reader puts it back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from monocal.core.errors import InvalidInput, MonocalError
from monocal.core.files import leftovers, local_path, naming_disk_full, sync, unused_name
from monocal.core.locks import is_abandoned, turn_in

OwnFiles = Callable[[Path], frozenset[str]]
"""Tells which files of an existing folder a writer may remove; raises `InvalidInput` if the folder holds others."""

T = TypeVar("T")

_MOST_READS = 100
_READER_SECONDS = 1.0
_PART, _OLD = ".part", ".old"


@contextmanager
def atomic_folder(target: str | Path, own_files: OwnFiles) -> Iterator[Path]:
    """Yields a temporary folder beside `target`; on success its files are synced and it takes `target`'s place.

    Writers of the same target take turns at that step. What killed writers left is removed.

    Arguments:
        target: The place: a new name, an empty folder, or a folder that `own_files` accepts; asked before anything
            is written and again in the moment of the replacement.
        own_files: Tells what may be removed.
    """
    target = named_place(target)
    check_place(target, own_files)
    with naming_disk_full(target), ExitStack() as stack:
        target.parent.mkdir(parents=True, exist_ok=True)
        with turn_in(target.parent):
            _put_back(target)
            for path in [*leftovers(target, _OLD), *filter(is_abandoned, leftovers(target, _PART))]:
                shutil.rmtree(path, ignore_errors=True)
            temporary = unused_name(target, _PART)
            temporary.mkdir()
            stack.enter_context(turn_in(temporary))
        try:
            yield temporary
            _publish(temporary, target, own_files)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _publish(finished: Path, target: Path, own_files: OwnFiles) -> None:
    """Syncs the files of a finished folder and gives it the place of `target` (same file system)."""
    _sync_all(finished)
    with turn_in(target.parent):
        check_place(target, own_files)
        if not _holds_anything(target):
            os.rename(finished, target)  # takes the place of an empty folder, too
            sync(target.parent)
            return
        old = unused_name(target, _OLD)
        os.rename(target, old)
        try:
            names = own_files(old)  # a foreign file may have come in since the look above
            os.rename(finished, target)
        except BaseException:
            os.rename(old, target)
            raise
        sync(target.parent)
        with suppress(OSError):  # the new folder is in its place: no longer a reason to fail
            _remove(old, names)


def check_place(target: Path, own_files: OwnFiles) -> None:
    """Refuses a place that a folder may not take: a file, a link, a mount, the current folder, other people's files.

    The current folder is refused even if it is empty: a shell that stands in it would see a removed folder.
    """
    if not os.path.lexists(target):
        return
    here = Path.cwd()
    refusals = (
        (target.is_symlink(), "is a symbolic link", "name the folder itself"),
        (not target.is_dir(), "is a file", "choose another name"),
        (os.path.ismount(target), "is a mounted file system", "name a folder inside it"),
        (target.resolve() in (here, *here.parents), "is or holds the current folder", "name a folder inside it"),
    )
    for applies, what, hint in refusals:
        if applies:
            expected = "a new or empty folder, or an earlier result of the same kind"
            raise InvalidInput.of("output folder", f"{str(target)!r}, which {what}", expected, hint)
    if _holds_anything(target):
        own_files(target)


def remove_folder(folder: Path, own_files: OwnFiles) -> None:
    """Removes a folder that holds nothing but a writer's own files; refuses any other."""
    check_place(folder, own_files)
    if folder.is_dir():
        _remove(folder, own_files(folder) if _holds_anything(folder) else frozenset())
        sync(folder.parent)


def finish_replacement(folder: Path) -> bool:
    """Waits for a writer between its two renames, or puts the old folder back if that writer was killed there.

    Returns whether there is a folder then.
    """
    with suppress(OSError, MonocalError), turn_in(folder.parent, _READER_SECONDS):
        _put_back(folder)
    return folder.exists()


def named_place(target: str | Path) -> Path:
    """Returns the path with a last part that has a name, so that something can stand beside it."""
    path = local_path(target, "output folder")
    return path.resolve() if path.name in ("", "..") else path


def read_unchanged(folder: Path, read: Callable[[], T]) -> T:
    """Reads a folder, once more if another took its place meanwhile: nobody sees parts of two."""
    for _ in range(_MOST_READS):
        before = identity_of(folder)
        try:
            found = read()
        except (OSError, MonocalError):
            # two moments without a folder may lie in two replacements
            if identity_of(folder) == before and (before is not None or not finish_replacement(folder)):
                raise
        else:
            if identity_of(folder) == before:
                return found
    return read()


def identity_of(folder: Path) -> tuple[int, int, int] | None:
    """Returns what changes when another folder takes this place; None if there is none."""
    try:
        facts = folder.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_ctime_ns


def _put_back(target: Path) -> None:
    if not os.path.lexists(target) and (olds := leftovers(target, _OLD)):
        os.rename(olds[0], target)


def _holds_anything(folder: Path) -> bool:
    return folder.is_dir() and bool(os.listdir(folder))


def entries_of(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the files and the folders below a folder, as relative names; links are files, whatever they lead to."""
    files, folders = set(), set()
    for place, below, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        links = [name for name in below if (Path(place) / name).is_symlink()]
        files |= {(inside / name).as_posix() for name in [*names, *links]}
        folders |= {(inside / name).as_posix() for name in below if name not in links}
    return frozenset(files), frozenset(folders)


def _remove(folder: Path, names: frozenset[str]) -> None:
    """Removes the named files and then the folders, which must be empty by then: nothing unnamed is ever removed."""
    for name in sorted(names):
        (folder / name).unlink(missing_ok=True)
    for name in sorted(entries_of(folder)[1], key=len, reverse=True):
        (folder / name).rmdir()
    folder.rmdir()


def _sync_all(folder: Path) -> None:
    """Syncs every file, readable by whoever may read new files here: some libraries make theirs private."""
    mode = folder.stat().st_mode
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(place) / name
            path.chmod(mode & 0o666)
            sync(path)
        Path(place).chmod(mode & 0o7777)
        sync(Path(place))
