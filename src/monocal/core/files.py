"""Output files of this machine: tried before any work is done, there whole or not at all, a full disk in one line."""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeGuard, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from monocal.core.errors import DiskFull, InvalidInput, MonocalError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
# a Path has one of the slashes only; one letter is a drive of Windows
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")

_PART, _OLD = ".part", ".old"
"""How names of what is not finished end, and of what is about to be replaced."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# safetensors gives the number in its text, numpy says how much it could write, pyarrow uses both
_NO_ROOM_TEXTS = re.compile(
    r"os error (?:{0})\b|errno (?:{0})\b|No space left on device|File too large|\d+ requested and \d+ written".format(
        "|".join(map(str, _NO_ROOM))
    ),
    re.IGNORECASE,
)


def is_uri(place: object) -> TypeGuard[str]:
    """Whether a place is named by a URI such as `s3://bucket/model` rather than a path.

    Example:
        >>> is_uri("hdfs:///models/ctr"), is_uri("models/ctr")
        (True, False)
    """
    return isinstance(place, str) and _REMOTE.match(place) is not None


def local_path(place: str | Path, argument: str = "output") -> Path:
    """Returns the path of a place to write to: a path as it is, that of a `file://` URI; refuses any other URI.

    Example:
        >>> local_path("file:///tmp/a%20model").as_posix(), local_path("model").as_posix()
        ('/tmp/a model', 'model')
        >>> local_path("s3://bucket/model", "output folder")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: output folder: got 's3://bucket/model'; expected a local path or a ...
    """
    if not _SCHEME.match(str(place)):
        return Path(place)
    parts = urlsplit(str(place))
    if isinstance(place, str) and parts.scheme.lower() == "file" and parts.netloc in ("", "localhost"):
        return Path(url2pathname(parts.path))
    raise InvalidInput.of(
        argument,
        repr(str(place)),
        "a local path or a file:///… URI",
        "write to a local place first and copy the result there",
    )


def output_file(place: str | Path, argument: str = "output file") -> Path:
    """Returns the path of a file to write; refuses one that cannot be written. To be asked before any work.

    Arguments:
        place: A new name or a file that will be replaced.
        argument: What errors call it.
    """
    path = local_path(place, argument)
    shown = repr(str(place))
    if path.is_dir() or str(place).endswith(("/", os.sep)):
        raise InvalidInput.of(argument, f"{shown}, which is a folder", "a file", "name a file inside it")
    if os.path.lexists(path) and not path.is_file() and not path.is_symlink():
        raise InvalidInput.of(argument, f"{shown}, which is no regular file", "a file", "choose another name")
    _try_to_write(path, argument)
    return path


def output_folder(place: str | Path, argument: str = "output folder") -> Path:
    """Returns the path of a folder to write; refuses one that cannot be made there. To be asked before any work."""
    path = local_path(place, argument)
    _try_to_write(named_place(path), argument)
    return path


def check_output(target: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuses to write a file over one of the inputs, under whatever name, or into a folder that is an input.

    An input that is not there by its own name is taken as a glob.
    """
    place = local_path(target, "output file").resolve()
    for given in inputs:
        if is_uri(given) and not given.startswith("file:"):
            continue
        named = local_path(given)
        for path in [named] if named.exists() else map(Path, glob.glob(str(named), recursive=True)):
            is_same = path.resolve() == place or (place.exists() and place.samefile(path))
            if is_same or (path.is_dir() and path.resolve() in place.parents):
                raise InvalidInput.of(
                    "output file",
                    repr(str(target)),
                    "a file other than the input",
                    "write to a new file, then replace the old",
                )


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
    with _beside(target, _PART + target.suffix, lambda path: path.touch(exist_ok=False)) as temporary:
        # the mode of any new file, as the umask and the folder have it
        mode = temporary.stat().st_mode & 0o666
        yield temporary
        # a library may have put a file of its own in this place, readable by nobody else
        temporary.chmod(mode)
        sync(temporary)
        temporary.replace(target)
        sync(target.parent)


@contextmanager
def _beside(target: Path, ending: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """Makes a hidden place beside `target`, keeps it locked until the end, and removes it on any error.

    What killed writers of the same target left is put back or removed first.
    """
    with naming_disk_full(target), ExitStack() as stack:
        target.parent.mkdir(parents=True, exist_ok=True)
        with turn_in(target.parent):
            _put_back(target)
            for path in [*leftovers(target, _OLD), *filter(is_abandoned, leftovers(target, ending))]:
                _discard(path)
            temporary = unused_name(target, ending)
            make(temporary)
            stack.enter_context(turn_in(temporary))
        try:
            yield temporary
        except BaseException:
            _discard(temporary)
            raise


def _discard(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Makes sure that a file's contents, or a folder's entries where the system can do that, are on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():
            return  # Windows opens no folders
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unused_name(target: Path, ending: str) -> Path:
    """Returns a hidden name beside `target` that nobody uses and by which `leftovers` finds it again."""
    return target.parent / f".{target.name}.{secrets.token_hex(4)}{ending}"


def leftovers(target: Path, ending: str) -> list[Path]:
    """Returns what stands beside `target` under names of `unused_name`."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}{re.escape(ending)}")
    return sorted(target.parent / entry for entry in os.listdir(target.parent) if pattern.fullmatch(entry))


@contextmanager
def naming_disk_full(target: str | Path) -> Iterator[None]:
    """Turns whatever the block raises because a disk is full (or a quota or size limit reached) into `DiskFull`.

    Of blocks in blocks the outermost names what was being written: that is what the caller asked for.

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
        advice = "free space there, raise the quota or file size limit, or write to another disk"
        raise DiskFull(f"disk full while writing {str(target)!r}; nothing was replaced. Hint: {advice}.") from error


def is_disk_full(error: BaseException) -> bool:
    """Says whether an error means that there was no room to write.

    Example:
        >>> is_disk_full(OSError("4096 requested and 512 written")), is_disk_full(ValueError("too large"))
        (True, False)
    """
    if isinstance(error, DiskFull):
        return True
    return getattr(error, "errno", None) in _NO_ROOM or _NO_ROOM_TEXTS.search(str(error)) is not None


def _try_to_write(path: Path, argument: str) -> None:
    """Writes a file without a name beside the place, or where its first missing folder would be made."""
    try:
        while not os.path.lexists(path.parent):
            path = path.parent
        with suppress(FileNotFoundError):  # too long a name is found here: writers use a longer one until all is there
            os.lstat(path.with_name(f"{path.name}{'x' * 20}"))
        with naming_disk_full(path), tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(b"x")
            file.flush()
    except (OSError, ValueError) as error:
        if is_disk_full(error):
            raise
        raise InvalidInput.of(
            argument,
            f"{str(path)!r}, where nothing can be written ({getattr(error, 'strerror', None) or error})",
            "a place that can be written",
            "choose another place, or change who may write there",
        ) from error


# Folders


OwnFiles = Callable[[Path], frozenset[str]]
"""Tells which files of an existing folder a writer may remove; raises `InvalidInput` if the folder holds others."""

T = TypeVar("T")

_MOST_READS = 100
_READER_SECONDS = 1.0


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
    read_unchanged(target, lambda: check_place(target, own_files))
    with _beside(target, _PART, Path.mkdir) as temporary:
        yield temporary
        _publish(temporary, target, own_files)


def _publish(finished: Path, target: Path, own_files: OwnFiles) -> None:
    """Syncs the files of a finished folder and gives it the place of `target` (same file system)."""
    _sync_all(finished)
    with turn_in(target.parent):
        check_place(target, own_files)
        if not os.path.lexists(target):
            os.rename(finished, target)
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
    own_files(target)


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


def entries_of(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the files and the folders below a folder, as relative names; links are files, whatever they lead to."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    folders = frozenset(name for name, path in found.items() if path.is_dir() and not path.is_symlink())
    return frozenset(found) - folders, folders


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
    for path in [*folder.rglob("*"), folder]:
        path.chmod(mode & (0o7777 if path.is_dir() else 0o666))
        sync(path)


# Turns


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
    with suppress(OSError):
        descriptor = _lock(place)
        if descriptor is not None and descriptor >= 0:
            os.close(descriptor)
            return True
    return False


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
