"""Columns of numbers per row that need not be in memory as a whole."""

from __future__ import annotations

from typing import Protocol

from monocal.core.spaces import Floats


class Contributions(Protocol):
    """What K parts add on n rows: a matrix `(n, K)`, or something that makes the rows that one asks for."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: slice, /) -> Floats: ...
