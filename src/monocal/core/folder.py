"""The one checked folder: some files and a JSON manifest that knows their sizes and fingerprints, whole or not at all.

Every kind of folder that monocal writes (models, encoded and scored logs, rankers, data of studies) has a manifest
with the same entries:

    format          what kind of folder it is
    schema_version  raised whenever a folder could be misread by another version; only the present one is read
    written_by      the version that wrote it
    files           name to size in bytes and fingerprint of the contents, for every file but the manifest
    fingerprint     of the manifest without this entry, hence of everything in the folder

beside the entries of its kind. The manifest is written last; a folder without a whole one is nothing.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core import __version__
from monocal.core.dataset import ChosenIds
from monocal.core.errors import ArtefactError, InvalidInput, MissingFolder
from monocal.core.files import (
    atomic_folder,
    check_place,
    entries_of,
    finish_replacement,
    local_path,
    named_place,
    output_folder,
)

LARGEST_MANIFEST_BYTES = 64 << 20
"""A manifest holds facts, not data; what is larger is not read."""

MAPPED_BYTES = 256 << 20
"""From this size on a file is mapped where it may be shared between processes."""

_N_SHOWN = 5

Entries = dict[str, Any]

_BLOCK_ROWS = 1 << 16


def fingerprint(*parts: Any) -> str:
    """Returns 32 hex digits that change whenever any part changes.

    Parts may be anything JSON can hold, bytes, or arrays (their type and shape count too).

    Example:
        >>> fingerprint("platt", {"a": 1}) == fingerprint("platt", {"a": 1})
        True
        >>> fingerprint([1, 2]) == fingerprint([2, 1])
        False
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray | ChosenIds):
            digest.update(f"array {part.dtype.str} {part.shape}".encode())
            for begin in range(0, len(part), _BLOCK_ROWS) if part.ndim else ():
                digest.update(np.ascontiguousarray(part[begin : begin + _BLOCK_ROWS]).data)
            if not part.ndim:
                digest.update(np.ascontiguousarray(part).data)
        elif isinstance(part, bytes):
            digest.update(b"bytes %d " % len(part))
            digest.update(part)
        else:
            digest.update(b"json " + json.dumps(part, sort_keys=True, default=str).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def fingerprint_bytes(contents: bytes | mmap.mmap) -> str:
    """Returns what `fingerprint_file` gives for a file with these contents."""
    return hashlib.blake2b(contents, digest_size=16).hexdigest()


def fingerprint_file(path: Path) -> str:
    """Returns the fingerprint of a file's bytes, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


@final
@dataclass(frozen=True)
class FolderFormat:
    """One kind of checked folder.

    Arguments:
        name: What manifests of this kind have as `format`.
        version: The schema version that is written.
        manifest: File name of the manifest.
        called: How messages name such a folder.
        remedy: What to do about a damaged one.
        anew: How to make one anew that an older version wrote.
        known: Files of every folder of this kind, for manifests that are damaged or do not name them.
    """

    name: str
    version: int
    manifest: str
    called: str
    remedy: str
    anew: str = "write it again"
    known: tuple[str, ...] = field(default=())

    def writing(self, target: str | Path) -> AbstractContextManager[Path]:
        """Yields a folder that takes the place of `target` at the end; `seal` is the last thing to do in it.

        A place that holds anything but an earlier folder of this kind is refused, see `atomic_folder`.
        """
        return atomic_folder(target, self._own_files)

    def check_target(self, target: str | Path, argument: str = "output folder") -> Path:
        """Returns the path of a folder to write; refuses one that cannot be written or holds anything foreign.

        To be asked before hours of work.
        """
        path = local_path(target, argument)
        check_place(named_place(path), self._own_files)
        return output_folder(path, argument)

    def seal(self, folder: Path, entries: Mapping[str, Any], files: Mapping[str, Any] | None = None) -> str:
        """Writes the manifest over all files that are in the folder and returns its fingerprint.

        Arguments:
            folder: Where the files are.
            entries: The entries of this kind; numbers in them are finite.
            files: What `describe_files` returned, if that was asked already.
        """
        manifest = self.entries(entries, self.describe_files(folder) if files is None else files)
        (folder / self.manifest).write_text(self.manifest_text(manifest), encoding="utf-8")
        return str(manifest["fingerprint"])

    @staticmethod
    def manifest_text(manifest: Entries) -> str:
        """Returns the contents of a manifest's file."""
        return json.dumps(manifest, indent=1, allow_nan=False) + "\n"

    def describe_files(self, folder: Path, names: Iterable[str] | None = None) -> Entries:
        """Returns size and fingerprint of the named files, by default of every file but the manifest."""
        return {
            name: {"n_bytes": (folder / name).stat().st_size, "fingerprint": fingerprint_file(folder / name)}
            for name in sorted(entries_of(folder)[0] - {self.manifest} if names is None else names)
        }

    def entries(self, entries: Mapping[str, Any], files: Mapping[str, Any]) -> Entries:
        """Returns the whole manifest of a folder with these entries and files."""
        manifest: Entries = {
            "format": self.name,
            "schema_version": self.version,
            "written_by": f"monocal {__version__}",
            **entries,
            "files": dict(files),
        }
        manifest["fingerprint"] = fingerprint(manifest)
        return manifest

    def is_at(self, folder: str | Path) -> bool:
        """Says whether a folder has a manifest of this kind, whole or not."""
        try:
            return bool(self._parse(Path(folder)).get("format") == self.name)
        except ArtefactError:
            return False

    def read(self, folder: str | Path) -> Entries:
        """Reads and checks the manifest alone: format, version, its own fingerprint, names of files."""
        path = Path(folder) / self.manifest
        manifest = self._parse(Path(folder))
        if manifest.get("format") != self.name:
            raise ArtefactError(f"{path}: not a {self.name}; nothing was loaded")
        version = manifest.get("schema_version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise self._refusal(path, f"damaged (schema version {version!r})")
        if version != self.version:
            writer = str(manifest.get("written_by", "an earlier version of monocal"))[:60]
            remedy = self.anew if version < self.version else "upgrade monocal"
            raise ArtefactError(
                f"{path}: written by {writer} with schema version {version}, and monocal "
                f"{__version__} reads schema version {self.version}; nothing was loaded or changed. Hint: {remedy}"
            )
        if manifest.get("fingerprint") != fingerprint({k: v for k, v in manifest.items() if k != "fingerprint"}):
            raise self._refusal(path, "the contents do not match their fingerprint")
        try:
            for name, facts in manifest["files"].items():
                if not (_is_safe(name) and isinstance(facts["fingerprint"], str) and isinstance(facts["n_bytes"], int)):
                    raise ValueError(name)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self.damaged(folder, error) from error
        return manifest

    def damaged(self, folder: str | Path, error: Exception) -> ArtefactError:
        """Returns the error for a manifest that lacks something or has it in another form."""
        return self._refusal(Path(folder) / self.manifest, f"damaged ({error!r})")

    def verify(self, folder: str | Path, manifest: Entries, *, contents: bool = True) -> None:
        """Compares the sizes of all files with the manifest, and their fingerprints if `contents`."""
        for name in manifest["files"]:
            path, facts = self._stated(Path(folder), manifest, name)
            if contents:
                self._compare(path, facts, fingerprint_file(path))

    def read_file(self, folder: str | Path, manifest: Entries, name: str) -> bytes:
        """Reads one file into memory; what is returned is what was checked, whoever writes there meanwhile.

        Nothing is read before the file has the size that the manifest states, and then not more than that.
        """
        path, facts = self._stated(Path(folder), manifest, name)
        with path.open("rb") as stream:
            contents = stream.read(facts["n_bytes"] + 1)
        self._compare(path, facts, fingerprint_bytes(contents))
        return contents

    def view_file(self, folder: str | Path, manifest: Entries, name: str) -> bytes | mmap.mmap:
        """As `read_file`, but a file of `MAPPED_BYTES` or more is mapped: processes that load it share its memory.

        What was read is the process's own. A mapped file stays what it was when another folder takes the place of this
        one; who writes into the file itself, which monocal never does, changes what was loaded, and who cuts it off
        ends the process.
        """
        path, facts = self._stated(Path(folder), manifest, name)
        if facts["n_bytes"] < MAPPED_BYTES:
            return self.read_file(folder, manifest, name)
        with path.open("rb") as stream:
            contents = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        self._compare(path, facts, fingerprint_bytes(contents))
        return contents

    def copy(self, folder: str | Path, target: Path) -> Entries:
        """Copies the manifest and the files it names, of the sizes it states, and nothing else.

        The copy's contents are not checked: whoever reads it does that.
        """
        manifest = self.read(folder)
        (target / self.manifest).write_text(self.manifest_text(manifest), encoding="utf-8")
        for name in manifest["files"]:
            path, _ = self._stated(Path(folder), manifest, name)
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
        return manifest

    def _parse(self, folder: Path) -> Entries:
        path = folder / self.manifest
        if not folder.exists() and not finish_replacement(folder):
            raise MissingFolder(
                f"{folder}: there is no such folder; {self.called} is a folder with {self.manifest} in it. "
                "Hint: check the path"
            )
        if not path.is_file():
            raise ArtefactError(f"{path}: there is no such file; {self.called} is a folder with {self.manifest} in it")
        with path.open("rb") as stream:
            contents = stream.read(LARGEST_MANIFEST_BYTES + 1)
        if len(contents) > LARGEST_MANIFEST_BYTES:
            raise self._refusal(path, f"larger than {LARGEST_MANIFEST_BYTES >> 20} MiB")
        try:
            manifest = json.loads(contents)
        except (ValueError, RecursionError) as error:
            raise self._refusal(path, f"not a whole JSON file ({error})") from error
        if not isinstance(manifest, dict):
            raise ArtefactError(f"{path}: not a {self.name}; nothing was loaded")
        return manifest

    def _stated(self, folder: Path, manifest: Entries, name: str) -> tuple[Path, Entries]:
        """The path of a file that has its size, and what the manifest says about it."""
        path = folder / name
        if name not in manifest["files"]:
            raise self._refusal(path, "not in the manifest")
        facts = manifest["files"][name]
        if not path.is_file():
            raise self._refusal(path, "missing")
        if (size := path.stat().st_size) != facts["n_bytes"]:
            raise self._refusal(path, f"{size} bytes instead of {facts['n_bytes']}")
        return path, facts

    def _compare(self, path: Path, facts: Entries, found: str) -> None:
        if found != facts["fingerprint"]:
            raise self._refusal(path, "the contents do not match the manifest's fingerprint")

    def _refusal(self, path: Path, why: str) -> ArtefactError:
        return ArtefactError(f"{path}: {why}; nothing was loaded. Hint: {self.remedy}")

    def _own_files(self, folder: Path) -> frozenset[str]:
        """The files of a folder, all of them named by a manifest of this kind; anything else is refused."""
        files, folders = entries_of(folder)
        ours: set[str] = set()
        try:
            manifest = self._parse(folder)
            if manifest.get("format") == self.name:
                stated = manifest.get("files")
                safe = filter(_is_safe, stated) if isinstance(stated, Mapping | list) else ()
                ours = {self.manifest, *self.known, *safe}
        except ArtefactError:
            # a damaged manifest beside exactly the files of this kind may be replaced by a whole one
            if self.known and {self.manifest, *self.known} <= files:
                ours = {self.manifest, *self.known}
        parents = {str(parent) for name in ours for parent in PurePosixPath(name).parents}
        foreign = sorted([*(files - ours), *(f"{name}/" for name in folders - parents)])
        if foreign:
            more = f" and {len(foreign) - _N_SHOWN} more" if len(foreign) > _N_SHOWN else ""
            raise InvalidInput.of(
                "output folder",
                f"{str(folder)!r}, which holds {', '.join(foreign[:_N_SHOWN])}{more}",
                f"a new or empty folder, or {self.called} and nothing else, which would be replaced",
                "choose another folder, or move these files away first",
            )
        return files


def _is_safe(name: Any) -> bool:
    """Whether a name stays inside the folder on every system."""
    if not isinstance(name, str) or not name or "\0" in name or "\\" in name or os.path.isabs(name):
        return False
    return all(part not in ("", ".", "..") for part in name.split("/"))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays of any layout as a safetensors file, whose own writer takes contiguous ones for granted."""
    from safetensors.numpy import save_file

    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)
