"""The one decorator of all compiled loops, and numbers that they and their twins in torch or numpy agree on.

Loads numba when the first loop is defined, not before, and never torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

LOG_SCALE_LIMIT = 15.0
"""The rescaling factor exp(w) stays within exp(±15), so that no input makes it infinite or zero."""

HASH_STARTS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
HASH_FACTORS = (0xBF58476D1CE4E5B9, 0xC2B2AE3D27D4EB4F)
HASH_LAST_FACTOR = 0x94D049BB133111EB
"""Constants of the two hashes of a text; saved indexes and hashed fields rest on them, so they never change."""

LONGEST_VALUE = 4_096
"""Bytes of a category. Longer texts count as unseen in fits, tables and requests, so none costs more than this."""

TEXT_ROOM = 8
"""Zero bytes behind the texts of a request: they are read eight bytes at a time."""

REORDERED_SUMS = frozenset({"reassoc", "contract", "nsz"})
"""Lets the compiler reorder sums, which a vectorised reduction needs. Not for sums whose order matters."""


@cache
def numba_is_installed() -> bool:
    """Says whether loops can be compiled, without importing numba."""
    return find_spec("numba") is not None


def compiled(*, freedom: frozenset[str] = frozenset(), inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Returns a decorator that compiles a loop, outside Python's lock and with numpy's rules for division.

    A loop that is called from Python is kept on disk, beside its source or in the user's cache folder, so that only
    the first process on a machine compiles it. Where neither can be written (a read-only installation without a home,
    a package inside a zip file), it is compiled in every process instead: slower to start, otherwise the same.

    Without numba the function stays as it is: the same numbers, in the interpreter's time.

    Arguments:
        freedom: What the compiler may do to floating-point sums.
        inline: For steps that only other loops call; they become part of these and are not kept themselves.

    Example:
        >>> import numpy as np
        >>> @compiled()
        ... def total(values):
        ...     result = 0.0
        ...     for value in values:
        ...         result += value
        ...     return result
        >>> total(np.array([0.5, 0.25]))
        0.75
    """

    def decorate(function: Callable[..., Any]) -> Any:
        if not numba_is_installed():
            return function
        from numba import njit

        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(freedom)}
        if inline:
            return njit(forceinline=True, **options)(function)
        try:
            # numba looks for a place when the loop is defined, and finding none is an error there; for a package
            # inside a zip file it names one without trying it
            loop = njit(cache=True, **options)(function)
            place = loop.stats.cache_path
            os.makedirs(place, exist_ok=True)
            if os.access(place, os.W_OK):
                return loop
        except (RuntimeError, OSError):
            pass
        return njit(**options)(function)

    return decorate


scalar = compiled(inline=True)
"""A step of other loops."""

vector = compiled(inline=True, freedom=REORDERED_SUMS)
"""A step of other loops whose sums may be reordered."""

Vector = Any
Matrix = Any
Ids = Any
Number = Any
"""What compiled loops take. numba infers the exact types: float32 arrays, int64 ids, any scalars."""

ZERO: Number = np.float32(0.0)

MOST_COLUMNS = 4096
"""Largest width of a layer together with the columns that skip it."""

LANES = 8
"""Widths are padded to a multiple of this many float32 numbers, one AVX2 register."""
