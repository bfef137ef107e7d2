"""Models that do not lie in a local folder: as the bytes of their files, or at any place that Arrow can open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeGuard

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.manifest import LARGEST_MANIFEST_BYTES, FolderFormat

ModelFiles = Mapping[str, bytes]
"""File name to contents, as `monocal.models.artefact.model_files` returns them."""

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_BLOCK = 1 << 22


def is_uri(place: object) -> TypeGuard[str]:
    """Whether a place is named by a URI such as `s3://bucket/model` rather than a path.

    Example:
        >>> is_uri("hdfs:///models/ctr"), is_uri("models/ctr")
        (True, False)
    """
    return isinstance(place, str) and _SCHEME.match(place) is not None


@contextmanager
def local_copy(place: str | ModelFiles, form: FolderFormat) -> Iterator[Path]:
    """Yields a temporary folder with the files of a model; errors raised inside name the place, not the folder.

    Nothing is checked but sizes: whoever reads the folder does the rest.

    Arguments:
        place: A URI, or the files themselves.
        form: The kind of folder.
    """
    with TemporaryDirectory(prefix="monocal-") as name:
        folder = Path(name)
        shown = place if isinstance(place, str) else "the given files"
        try:
            if isinstance(place, str):
                fetch_folder(place, folder, form)
            else:
                _write(place, folder, form)
            yield folder
        except ArtefactError as error:
            raise ArtefactError(str(error).replace(name, shown)) from error


def fetch_folder(uri: str, target: Path, form: FolderFormat) -> None:
    """Copies the manifest at a URI and the files it names into an empty folder, not a byte more than it states."""
    system, root = _open(uri)
    _fetch(system, f"{root}/{form.manifest}", target / form.manifest, LARGEST_MANIFEST_BYTES)
    for name, facts in form.read(target)["files"].items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        _fetch(system, f"{root}/{name}", target / name, facts["n_bytes"])


def _open(uri: str) -> tuple[Any, str]:
    import pyarrow as pa
    from pyarrow import fs

    # Hadoop's names of the same store
    known = re.sub(r"^s3[an]://", "s3://", uri)
    try:
        system, root = fs.FileSystem.from_uri(known)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput.of(
            "model", f"{uri!r}, which cannot be opened ({error})", "a URI that pyarrow.fs knows", "use a local folder"
        ) from error
    return system, root.rstrip("/")


def _fetch(system: Any, path: str, target: Path, n_bytes: int) -> None:
    left = n_bytes + 1  # of a file that is longer than stated one byte more, so that a reader notices
    try:
        with system.open_input_stream(path) as read, target.open("wb") as write:
            while left and (block := read.read(min(left, _BLOCK))):
                write.write(block)
                left -= len(block)
    except OSError as error:
        raise ArtefactError(f"{path}: cannot be read ({error}); nothing was loaded") from error


def _write(files: ModelFiles, folder: Path, form: FolderFormat) -> None:
    for name, contents in files.items():
        if Path(name).name != name:
            raise InvalidInput.of("model", f"a file {name!r}", "plain file names", "pass what model_files returned")
        (folder / name).write_bytes(contents)
    if form.manifest not in files:
        raise InvalidInput.of(
            "model",
            f"the files {', '.join(files) or 'none'}",
            f"{form.manifest} among them",
            "pass what model_files returned",
        )
