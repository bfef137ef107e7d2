"""What the workers of one service tell each other: loads asked for, and how they went."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

import numpy as np

OUTCOMES = ("pending", "switched", "unchanged", "refused")
"""How a load went in one worker, by number."""

_N_MODELS = 2
_READY, _SEEN, _OUTCOME = 0, 1, 3
_PER_WORKER = 5


@final
class WorkerBoard:
    """A small file that all workers map into memory; each writes its own row and reads everybody's.

    One worker gets an admin call, but all have to load. It raises the number of the load wanted; the others see that
    within a fraction of a second, load, and write down the number and the outcome.

    Arguments:
        path: The file, made by `WorkerBoard.create`.
        slot: This worker's row.
    """

    def __init__(self, path: Path, slot: int = 0) -> None:
        self.path = path
        self.slot = slot
        numbers = np.memmap(path, dtype=np.int64, mode="r+")
        self._wanted = numbers[:_N_MODELS]
        self._rows = numbers[_N_MODELS:].reshape(-1, _PER_WORKER)

    @classmethod
    def create(cls, path: Path, n_workers: int) -> WorkerBoard:
        """Makes the file."""
        np.zeros(_N_MODELS + n_workers * _PER_WORKER, dtype=np.int64).tofile(path)
        return cls(path)

    @property
    def n_workers(self) -> int:
        return int(self._rows.shape[0])

    def report_ready(self) -> None:
        """Says that this worker serves."""
        self._rows[self.slot, _READY] = os.getpid()

    def is_ready(self, slot: int, process_id: int) -> bool:
        """Says whether the process in a slot has begun to serve."""
        return bool(self._rows[slot, _READY] == process_id)

    def ask_for_load(self, model: int) -> int:
        """Wants every worker to load model 0 (the active one) or 1 (the shadow); returns the load's number."""
        with self._locked():
            self._wanted[model] += 1
            return int(self._wanted[model])

    def wanted(self, model: int) -> int:
        """Returns the number of the last load that was asked for."""
        return int(self._wanted[model])

    def report(self, model: int, number: int, outcome: str) -> None:
        """Says how load `number` went here."""
        row = self._rows[self.slot]
        row[_OUTCOME + model] = OUTCOMES.index(outcome)
        row[_SEEN + model] = number

    def outcomes(self, model: int, number: int) -> dict[str, int]:
        """Counts workers by how load `number` (or a later one) went; those that have not done it are pending."""
        counts = dict.fromkeys(OUTCOMES, 0)
        for row in self._rows:
            done = row[_SEEN + model] >= number
            counts[OUTCOMES[int(row[_OUTCOME + model])] if done else "pending"] += 1
        return counts

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.path.open("r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield
