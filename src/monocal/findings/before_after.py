"""The same thing before and after calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, final

Side = Literal["before", "after"]
SIDES: tuple[Side, Side] = ("before", "after")
T = TypeVar("T")
R = TypeVar("R")


@final
@dataclass(frozen=True)
class BeforeAfter(Generic[T]):
    """A pair: what holds for the uncalibrated forecast, and what holds for the calibrated one.

    Example:
        >>> rate = BeforeAfter(0.12, 0.1)
        >>> rate["after"], rate.map(lambda share: 100 * share).before, dict(rate.items())
        (0.1, 12.0, {'before': 0.12, 'after': 0.1})
    """

    before: T
    after: T

    def __getitem__(self, side: Side) -> T:
        return self.before if side == "before" else self.after

    def __iter__(self) -> Iterator[T]:
        return iter((self.before, self.after))

    def items(self) -> Iterator[tuple[Side, T]]:
        """Yields both with their side."""
        yield "before", self.before
        yield "after", self.after

    def map(self, function: Callable[[T], R]) -> BeforeAfter[R]:
        """Applies a function to both."""
        return BeforeAfter(function(self.before), function(self.after))
