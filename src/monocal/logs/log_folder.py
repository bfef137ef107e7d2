"""The folder of an encoded log: plain .npy files, the vocabulary, and a checked manifest that is written last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import ArtefactError
from monocal.core.fingerprint import fingerprint
from monocal.core.manifest import FolderFormat

VOCABULARY = "vocabulary.arrow"
GROUP_VALUES = "group_values.arrow"


ENCODED_LOG = FolderFormat(
    "monocal encoded log",
    3,
    "manifest.json",
    called="an encoded log",
    remedy="run encode_log again",
    anew="run encode_log again",
)
"""How an encoded log lies on disk."""


@final
@dataclass(frozen=True)
class LogManifest:
    """What is in the folder of an encoded log.

    Attributes:
        n_rows: Rows of every array.
        schema: The schema as plain values.
        parts: Named consecutive parts, as `[start, stop]`.
        arrays: Array name ("features", "label:click", "time", …) to its file name.
        made_from: What the log was made from and how, for people and for recognising repeated work.
        files: File name to its size in bytes and its fingerprint; known once the folder is sealed.
    """

    n_rows: int
    schema: Mapping[str, Any]
    parts: Mapping[str, tuple[int, int]]
    arrays: Mapping[str, str]
    made_from: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]

    @property
    def fingerprint(self) -> str:
        """Changes whenever the contents, the meaning or the parts change; not with where the log came from."""
        contents = {name: self.files[file]["fingerprint"] for name, file in self.arrays.items()}
        values = self.files[VOCABULARY]["fingerprint"]
        return fingerprint(self.n_rows, self.schema, {k: list(v) for k, v in self.parts.items()}, contents, values)

    @classmethod
    def write(
        cls,
        folder: Path,
        *,
        n_rows: int,
        schema: Mapping[str, Any],
        parts: Mapping[str, tuple[int, int]],
        arrays: Mapping[str, str],
        made_from: Mapping[str, Any],
    ) -> None:
        """Seals a folder that holds all files of a log, which makes it one."""
        names = [name for name in (*arrays.values(), VOCABULARY, GROUP_VALUES) if (folder / name).is_file()]
        files = ENCODED_LOG.describe_files(folder, names)
        manifest = cls(n_rows, schema, parts, arrays, made_from, files)
        entries = {name: getattr(manifest, name) for name in cls.__dataclass_fields__ if name != "files"}
        ENCODED_LOG.seal(folder, {"identity": manifest.fingerprint, **entries}, files)

    @classmethod
    def read(cls, folder: Path) -> LogManifest:
        """Reads the manifest; anything but a whole manifest of a known version is refused."""
        entries = ENCODED_LOG.read(folder)
        try:
            parts = {name: (int(a), int(b)) for name, (a, b) in entries["parts"].items()}
            manifest = cls(parts=parts, **{name: entries[name] for name in cls.__dataclass_fields__ if name != "parts"})
            if manifest.fingerprint != entries["identity"]:
                raise ArtefactError(
                    f"{folder}: the manifest does not agree with its own fingerprint; run encode_log again"
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ENCODED_LOG.damaged(folder, error) from error
        return manifest

    def verify(self, folder: Path, *, contents: bool) -> None:
        """Compares the sizes of all files with the manifest, and their fingerprints if `contents`."""
        ENCODED_LOG.verify(folder, {"files": self.files}, contents=contents)


def map_array(path: Path) -> NDArray[Any]:
    """Opens a .npy file as a read-only memory map (an empty array when there are no rows)."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except ValueError as error:
        header = np.load(path, allow_pickle=False) if path.stat().st_size < 1024 else None
        if header is not None and header.size == 0:
            return header  # type: ignore[no-any-return]
        raise ArtefactError(f"{path} is not an array file ({error})") from error
