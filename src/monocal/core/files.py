"""Output files of this machine: tried before any work is done, there whole or not at all, a full disk in one line."""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeGuard
from urllib.parse import urlsplit
from urllib.request import url2pathname

from monocal.core.errors import DiskFull, InvalidInput
from monocal.core.locks import is_abandoned, turn_in

_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
# a Path has one of the slashes only; one letter is a drive of Windows
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")

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
    _try_to_write(path.resolve() if path.name in ("", "..") else path, argument)
    return path


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
    with naming_disk_full(target), ExitStack() as stack:
        target.parent.mkdir(parents=True, exist_ok=True)
        ending = ".part" + target.suffix
        with turn_in(target.parent):
            for path in leftovers(target, ending):
                if is_abandoned(path):
                    path.unlink(missing_ok=True)
            temporary = unused_name(target, ending)
            # the mode of any new file, as the umask and the folder have it
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            mode = temporary.stat().st_mode & 0o666
            stack.enter_context(turn_in(temporary))
        try:
            yield temporary
            # a library may have put a file of its own in this place, readable by nobody else
            temporary.chmod(mode)
            sync(temporary)
            temporary.replace(target)
            sync(target.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


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
