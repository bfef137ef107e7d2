"""Whether a loop over rows runs compiled or by numpy."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

COMPILED_FROM_CELLS = 500_000
"""Rows times fields from which the compiled loop, if numba is there, is worth loading."""


def loop_for(n_cells: float, by_numpy: Callable[..., Any], kernel: str) -> Callable[..., Any]:
    """Returns a loop over rows, compiled if there is enough to do.

    Arguments:
        n_cells: Rows times fields.
        by_numpy: The loop for few rows, and for machines without numba.
        kernel: The module that holds the same function, compiled.
    """
    if n_cells < COMPILED_FROM_CELLS or find_spec("numba") is None:
        return by_numpy
    compiled: Callable[..., Any] = getattr(import_module(kernel), by_numpy.__name__)
    return compiled
