"""The folder of an encoded log: plain .npy files, the vocabulary, and a manifest that is written last.

A folder without a whole manifest is not a log. The manifest knows the size and the checksum of every file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import ArtefactError
from monocal.core.files import atomic_file
from monocal.core.fingerprint import fingerprint, fingerprint_file

MANIFEST = "manifest.json"
VOCABULARY = "vocabulary.arrow"
GROUP_VALUES = "group_values.arrow"
FORMAT = "monocal encoded log"
SCHEMA_VERSION = 1


@final
@dataclass(frozen=True)
class LogManifest:
    """What is in the folder of an encoded log.

    Attributes:
        n_rows: Rows of every array.
        schema: The schema as plain values.
        parts: Named consecutive parts, as `[start, stop]`.
        arrays: Array name ("features", "label:click", "time", …) to its file name.
        files: File name to its size in bytes and its checksum.
        made_from: What the log was made from and how, for people and for recognising repeated work.
    """

    n_rows: int
    schema: Mapping[str, Any]
    parts: Mapping[str, tuple[int, int]]
    arrays: Mapping[str, str]
    files: Mapping[str, Mapping[str, Any]]
    made_from: Mapping[str, Any]

    @property
    def fingerprint(self) -> str:
        """Changes whenever the contents, the meaning or the parts change; not with where the log came from."""
        checksums = {name: self.files[file]["checksum"] for name, file in self.arrays.items()}
        values = self.files[VOCABULARY]["checksum"]
        return fingerprint(self.n_rows, self.schema, {k: list(v) for k, v in self.parts.items()}, checksums, values)

    def write(self, folder: Path) -> None:
        entries = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "fingerprint": self.fingerprint,
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
        }
        with atomic_file(folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(entries, indent=2, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> LogManifest:
        """Reads the manifest; anything but a whole manifest of a known version is refused."""
        path = folder / MANIFEST
        if not path.is_file():
            raise ArtefactError(f"{folder} is not an encoded log: it has no {MANIFEST}; run encode_log again")
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
            if entries["format"] != FORMAT:
                raise ArtefactError(f"{folder} is not an encoded log: its format is {entries['format']!r}")
            if entries["schema_version"] != SCHEMA_VERSION:
                raise ArtefactError(
                    f"{folder} has schema_version {entries['schema_version']}; this version reads {SCHEMA_VERSION}"
                )
            parts = {name: (int(a), int(b)) for name, (a, b) in entries["parts"].items()}
            rest = {name: entries[name] for name in cls.__dataclass_fields__ if name != "parts"}
            manifest = cls(parts=parts, **rest)
            if manifest.fingerprint != entries["fingerprint"]:
                raise ArtefactError(f"{path} does not agree with its own fingerprint; run encode_log again")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtefactError(f"{path} is damaged ({error!r}); run encode_log again") from error
        return manifest

    def verify(self, folder: Path, *, contents: bool) -> None:
        """Compares the sizes of all files with the manifest, and their checksums if `contents`."""
        for name, expected in self.files.items():
            path = folder / name
            if not path.is_file():
                raise ArtefactError(f"{path} is missing; run encode_log again")
            if path.stat().st_size != expected["bytes"]:
                raise ArtefactError(
                    f"{path} has {path.stat().st_size} bytes instead of {expected['bytes']}; run encode_log again"
                )
            if contents and fingerprint_file(path) != expected["checksum"]:
                raise ArtefactError(f"{path} does not match its checksum; run encode_log again")


def is_log_folder(folder: Path) -> bool:
    """Whether a folder has the manifest of an encoded log, whole or not."""
    try:
        return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["format"] == FORMAT  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def describe_files(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Returns the size and checksum of each file, for a manifest."""
    return {
        name: {"bytes": (folder / name).stat().st_size, "checksum": fingerprint_file(folder / name)} for name in names
    }


def map_array(path: Path) -> NDArray[Any]:
    """Opens a .npy file as a read-only memory map (an empty array when there are no rows)."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except ValueError as error:
        header = np.load(path, allow_pickle=False) if path.stat().st_size < 1024 else None
        if header is not None and header.size == 0:
            return header  # type: ignore[no-any-return]
        raise ArtefactError(f"{path} is not an array file ({error})") from error
