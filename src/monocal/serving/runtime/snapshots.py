"""Private copies of model folders, so that what was verified is what is served."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

from monocal.core.errors import ArtefactError
from monocal.core.replace import identity_of
from monocal.models.artefact import MODEL_FOLDER

_PATIENCE_SECONDS = 2.0
_KEPT, _TRIED = "good-", "try-"

Signature = tuple[tuple[str, int, int, int], ...]


@final
class Snapshots:
    """Copies of one model's folder: a new one is verified as a copy, and the copy in force is kept.

    A publisher may overwrite the folder at any moment, even in place. Reading a copy means that nobody can change it
    between the check and the use, and that a worker started later finds the model the others serve, whatever lies in
    the folder by then.

    Arguments:
        home: Where copies are kept.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def copy_of(self, folder: Path) -> Iterator[Path]:
        """Yields a copy of the folder's files, and removes it afterwards unless it was kept."""
        self._remove_copies_of_the_dead()
        try:
            copy = Path(tempfile.mkdtemp(prefix=f"{_TRIED}{os.getpid()}-", dir=self.home))
        except OSError as error:
            raise ArtefactError(f"the model folder cannot be copied: {error.strerror}; nothing was loaded") from error
        try:
            _copy_files(folder, copy)
            yield copy
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def kept(self, version: str) -> Path:
        """Returns where the copy of a version is, if it is kept."""
        return self.home / f"{_KEPT}{version}"

    def keep(self, copy: Path, version: str, besides: str = "") -> None:
        """Keeps a copy, and of the others only that of the version `besides`."""
        target = self.kept(version)
        # another worker may have kept the same one already
        with suppress(OSError):
            copy.rename(target)
        for old in self.home.glob(f"{_KEPT}*"):
            if old not in (target, self.kept(besides)):
                shutil.rmtree(old, ignore_errors=True)

    def _remove_copies_of_the_dead(self) -> None:
        for folder in self.home.glob(f"{_TRIED}*"):
            process_id = folder.name.removeprefix(_TRIED).partition("-")[0]
            try:
                os.kill(int(process_id), 0)
            except (ValueError, ProcessLookupError):
                shutil.rmtree(folder, ignore_errors=True)
            except PermissionError:
                continue


def signature(folder: Path) -> Signature:
    """Returns what changes when any file of a folder does; empty if there is no such folder."""
    found = []
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            facts = path.stat()
            found.append((path.name, facts.st_size, facts.st_mtime_ns, facts.st_ino))
    return tuple(found)


def _copy_files(folder: Path, copy: Path) -> None:
    """Copies the files that the manifest names, all from one folder even if a publisher replaces it meanwhile."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        before = identity_of(folder)
        try:
            if (folder / MODEL_FOLDER.manifest).is_file():
                with suppress(ArtefactError):  # the reader of the copy will say what is wrong with it
                    MODEL_FOLDER.copy(folder, copy)
                if identity_of(folder) == before:
                    return
                problem = "it is being replaced all the time"
            else:
                problem = "it has no manifest.json" if folder.exists() else "it does not exist"
        except OSError as error:
            problem = str(error.strerror)
        if time.monotonic() > deadline:
            raise ArtefactError(f"the model folder cannot be read: {problem}; nothing was loaded")
        time.sleep(0.05)
