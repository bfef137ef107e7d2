"""CPU time of several calls that take turns, so that a busy neighbour meets all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

Call = Callable[[], object]


class Row(NamedTuple):
    """One measured thing, beside a yardstick of the same process and the same rows."""

    what: str
    seconds: float
    yardstick: str
    yardstick_seconds: float

    def cells(self, unit: float) -> str:
        """Returns the row of a table, in seconds divided by `unit`."""
        mine, other = self.seconds / unit, self.yardstick_seconds / unit
        return f"| {self.what} | {mine:,.4g} | {self.yardstick} | {other:,.4g} | {mine / other:,.3g} |"


def best_of(calls: Mapping[str, Call], *, rounds: int, repeats: int = 1) -> dict[str, float]:
    """Returns the smallest CPU seconds of every call, each first called once without a clock."""
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.process_time()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.process_time() - started) / repeats)
    return best
