"""How many labels are taken from callers whom nobody vouches for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

BURST_SECONDS = 10
"""Seconds' worth of labels that may come at once after a quiet time."""


@final
class FeedbackRate:
    """A bucket that fills with `per_second` rows a second, up to ten seconds' worth.

    With the default of 1,000 rows a second at most a tenth of the window behind the running PCOC can be replaced at
    once; the clock is monotonic, so setting the machine's time changes nothing.

    Arguments:
        per_second: Rows per second.
        clock: Tells seconds.

    Example:
        >>> now = [0.0]
        >>> rate = FeedbackRate(100, clock=lambda: now[0])
        >>> rate.take(1000), rate.take(1)
        (True, False)
        >>> now[0] = 2.0
        >>> rate.take(200), rate.take(1)
        (True, False)
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._room = per_second * BURST_SECONDS
        self._last = clock()

    def take(self, n_rows: int) -> bool:
        """Takes rows out, or says that there are not that many."""
        now = self._clock()
        full = self.per_second * BURST_SECONDS
        self._room = min(full, self._room + (now - self._last) * self.per_second)
        self._last = now
        if n_rows > self._room:
            return False
        self._room -= n_rows
        return True
