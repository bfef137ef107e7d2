"""How contents are named and stored: fingerprints, and arrays in safetensors files without a second copy in memory."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import ChosenIds
from monocal.core.errors import ArtefactError

_BLOCK_BYTES = 1 << 22
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
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


_NAMES = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "bool": "BOOL"}


def write_tensors(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes contiguous arrays one after the other behind a JSON header, as the safetensors format asks.

    The official writer turns all arrays into one byte string first; an embedding table of several gigabytes would
    need twice its memory.
    """
    header: dict[str, Any] = {}
    end = 0
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in whole.items():
        kind = _NAMES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        for array in whole.values():
            array.tofile(stream)


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Reads every array of a safetensors file; anything damaged is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="np") as source:
            return {name: source.get_tensor(name) for name in source.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ArtefactError(f"{path} cannot be read ({error}); nothing was loaded") from error
