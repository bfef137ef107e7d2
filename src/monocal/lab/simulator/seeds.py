"""Named streams of random numbers: the same key gives the same numbers, another key independent ones."""

from __future__ import annotations

import hashlib

import numpy as np

Key = tuple[str | int, ...]


def random_stream(*key: str | int) -> np.random.Generator:
    """Returns a generator that depends on the whole key and on nothing else.

    Every table of a world and every block of rows has a key of its own, so nothing depends on the order in
    which things are drawn, and the global generator is untouched.

    Example:
        >>> a, b = random_stream("rows", 0, 7), random_stream("rows", 0, 7)
        >>> bool((a.random(3) == b.random(3)).all()), bool(random_stream("rows", 1, 7).random() == a.random())
        (True, False)
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=32).digest()
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(np.frombuffer(digest, "<u4").tolist())))
