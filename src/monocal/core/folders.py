"""Folders that are there whole or not at all, and that never take the place of somebody else's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from monocal.core.disk_full import naming_disk_full
from monocal.core.errors import InvalidInput, MonocalError
from monocal.core.exchange import exchange
from monocal.core.files import leftovers, sync, unused_name
from monocal.core.locks import hold, hold_private, turn_in
from monocal.core.outputs import local_path

OwnFiles = Callable[[Path], frozenset[str]]
"""Tells which files of an existing folder a writer may remove; raises `InvalidInput` if the folder holds others."""

T = TypeVar("T")

_MOST_READS = 100
_PART, _OLD = ".part", ".old"


@contextmanager
def atomic_folder(target: str | Path, own_files: OwnFiles) -> Iterator[Path]:
    """Yields a temporary folder beside `target`; on success its files are synced and it takes `target`'s place.

    The two change places in one step: a reader finds the old folder or the new one, also if this process is killed
    at any moment. Writers of the same target take turns at that step. What killed writers left is removed.

    Arguments:
        target: The place: a new name, an empty folder, or a folder that `own_files` accepts; asked before anything
            is written and again in the moment of the exchange.
        own_files: Tells what may be removed.
    """
    target = named_place(target)
    check_place(target, own_files)
    with naming_disk_full(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with turn_in(target.parent):
            _remove_leftovers(target)
            temporary = unused_name(target, _PART)
            temporary.mkdir()
            give_back = hold_private(temporary)
        try:
            yield temporary
            publish_folder(temporary, target, own_files)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        finally:
            if give_back is not None:
                give_back()


def publish_folder(finished: Path, target: Path, own_files: OwnFiles) -> None:
    """Syncs the files of a finished folder and gives it the place of `target` (same file system)."""
    _sync_all(finished)
    with turn_in(target.parent):
        check_place(target, own_files)
        if not _holds_anything(target):
            os.rename(finished, target)  # takes the place of an empty folder, too
            sync(target.parent)
        elif exchange(finished, target):
            sync(target.parent)
            try:
                names = own_files(finished)
            except InvalidInput:
                # a foreign file came in between the look and the exchange: take everything back
                exchange(finished, target)
                raise
            _remove_if_possible(finished, names)
        else:
            _replace_in_two_steps(finished, target, own_files)


def named_place(target: str | Path) -> Path:
    """Returns the path with a last part that has a name, so that something can stand beside it."""
    path = local_path(target, "output folder")
    return path.resolve() if path.name in ("", "..") else path


def check_place(target: Path, own_files: OwnFiles) -> None:
    """Refuses a place that a folder may not take: a file, a link, a mount, the current folder, other people's files.

    The current folder is refused even if it is empty: a shell that stands in it would see a removed folder.
    """
    shown = repr(str(target))
    if not os.path.lexists(target):
        return
    if target.is_symlink():
        raise _refusal(f"{shown}, which is a symbolic link", "name the folder itself")
    if not target.is_dir():
        raise _refusal(f"{shown}, which is a file", "choose another name")
    if os.path.ismount(target):
        raise _refusal(f"{shown}, which is a mounted file system", "name a folder inside it")
    here = Path.cwd()
    if target.resolve() in (here, *here.parents):
        raise _refusal(f"{shown}, which is or holds the current folder", "name a folder inside it")
    if _holds_anything(target):
        own_files(target)


def remove_folder(folder: Path, own_files: OwnFiles) -> None:
    """Removes a folder that holds nothing but a writer's own files; refuses any other."""
    check_place(folder, own_files)
    if folder.is_dir():
        _remove(folder, own_files(folder) if _holds_anything(folder) else frozenset())
        sync(folder.parent)


def read_unchanged(folder: Path, read: Callable[[], T]) -> T:
    """Reads a folder, once more if another took its place meanwhile: nobody sees parts of two."""
    for _ in range(_MOST_READS):
        before = identity_of(folder)
        try:
            found = read()
        except (OSError, MonocalError):
            if identity_of(folder) == before:
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


def entries_of(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the files and the folders below a folder, as relative names; links are files, whatever they lead to."""
    files, folders = set(), set()
    for place, below, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        links = [name for name in below if (Path(place) / name).is_symlink()]
        files |= {(inside / name).as_posix() for name in [*names, *links]}
        folders |= {(inside / name).as_posix() for name in below if name not in links}
    return frozenset(files), frozenset(folders)


def _refusal(what: str, hint: str) -> InvalidInput:
    return InvalidInput.of("output folder", what, "a new or empty folder, or an earlier result of the same kind", hint)


def _holds_anything(folder: Path) -> bool:
    return folder.is_dir() and bool(os.listdir(folder))


def _replace_in_two_steps(finished: Path, target: Path, own_files: OwnFiles) -> None:
    """For systems that cannot exchange: if killed between the steps, the next writer puts the old folder back."""
    old = unused_name(target, _OLD)
    os.rename(target, old)
    try:
        names = own_files(old)
        os.rename(finished, target)
    except BaseException:
        os.rename(old, target)
        raise
    sync(target.parent)
    _remove_if_possible(old, names)


def _remove_leftovers(target: Path) -> None:
    for old in leftovers(target.parent, target.name, _OLD):
        if not os.path.lexists(target):
            os.rename(old, target)
        else:
            shutil.rmtree(old, ignore_errors=True)
    for part in leftovers(target.parent, target.name, _PART):
        with suppress(OSError):
            lock = hold(part)
            if lock is not None:
                shutil.rmtree(part, ignore_errors=True)
                os.close(lock)


def _remove_if_possible(folder: Path, names: frozenset[str]) -> None:
    # the new folder is in its place, so this is no longer a reason to fail; the next writer tries again
    with suppress(OSError):
        _remove(folder, names)


def _remove(folder: Path, names: frozenset[str]) -> None:
    """Removes the named files and then the folders, which must be empty by then: nothing unnamed is ever removed."""
    for name in sorted(names):
        with suppress(FileNotFoundError):
            (folder / name).unlink()
    _, below = entries_of(folder)
    for name in sorted(below, key=len, reverse=True):
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
