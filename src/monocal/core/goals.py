"""Which way a number is better: never a boolean, because PCOC's ideal is 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Goal:
    """Where a metric wants to be.

    Example:
        >>> toward(1.0).is_better(0.98, than=1.10), minimize.is_better(0.2, than=0.1)
        (True, False)
    """

    kind: Literal["minimize", "maximize", "toward"]
    target: float = 0.0

    def loss(self, value: float) -> float:
        """Returns a number that is smaller for a better value."""
        if self.kind == "maximize":
            return -value
        return abs(value - self.target) if self.kind == "toward" else value

    def is_better(self, value: float, *, than: float) -> bool:
        return self.loss(value) < self.loss(than)


minimize = Goal("minimize")
maximize = Goal("maximize")


def toward(target: float) -> Goal:
    """The goal of being close to `target`."""
    return Goal("toward", target)
