"""Short names for contents: equal inputs, equal fingerprint."""

from __future__ import annotations

import hashlib
import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from monocal.core.chosen_ids import ChosenIds

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
