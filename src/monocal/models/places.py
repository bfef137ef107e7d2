"""Models that do not lie in a local folder: as the bytes of their files, or at any place that Arrow can open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.manifest import LARGEST_MANIFEST_BYTES, FolderFormat
from monocal.tables.places import open_place

ModelFiles = Mapping[str, bytes]
"""File name to contents, as `monocal.models.artefact.model_files` returns them."""

_BLOCK = 1 << 22


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
    system, path = open_place(uri, "model")
    root = path.rstrip("/")
    _fetch(system, f"{root}/{form.manifest}", target / form.manifest, LARGEST_MANIFEST_BYTES)
    for name, facts in form.read(target)["files"].items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        _fetch(system, f"{root}/{name}", target / name, facts["n_bytes"])


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
