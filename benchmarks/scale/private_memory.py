"""The most private memory that a process had while something ran."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import Any


def private_bytes() -> int:
    """Returns this process's private memory; pages of mapped files, which the system may drop, are not in it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    raise KeyError("RssAnon")


class PrivatePeak:
    """Looks every 50 ms while its block runs.

    Attributes:
        beyond_start: The most bytes, minus what the process had when the block began.
    """

    def __init__(self) -> None:
        self.beyond_start = 0
        self._before, self._done = private_bytes(), Event()
        self._watcher = Thread(target=self._watch)

    def __enter__(self) -> PrivatePeak:
        self._before = private_bytes()
        self._watcher.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.beyond_start = max(self.beyond_start, private_bytes() - self._before)

    def facts(self, n_rows: int) -> dict[str, float]:
        """Returns what is printed of it, per row of this process."""
        return {
            "bytes per own row at the peak": round(self.beyond_start / n_rows, 1),
            "peak MiB beyond the start": round(self.beyond_start / 2**20),
        }
