"""Where results are written: places of this machine, tried before any work is done."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from monocal.core.disk_full import is_disk_full, naming_disk_full
from monocal.core.errors import InvalidInput

# a Path has one of the slashes only; one letter is a drive of Windows
_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:/")


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
    if not _URI.match(str(place)):
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
    _try(path, argument)
    return path


def output_folder(place: str | Path, argument: str = "output folder") -> Path:
    """Returns the path of a folder to write; refuses one that cannot be made there. To be asked before any work."""
    path = local_path(place, argument)
    _try(path.resolve() if path.name in ("", "..") else path, argument)
    return path


def _try(path: Path, argument: str) -> None:
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
