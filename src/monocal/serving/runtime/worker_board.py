"""What the workers of one service tell each other: the version in force, how loads went, and that they are alive."""

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
_VERSION_BYTES = 256
_VERSION_NUMBERS = _N_MODELS * 2 * _VERSION_BYTES // 8
_READY, _BEATS, _SEEN, _OUTCOME = 0, 1, 2, 4
_PER_WORKER = 6


@final
class WorkerBoard:
    """A small file that all workers map into memory; each writes its own row and reads everybody's.

    One worker gets an admin call, but all have to load. It checks the model, puts its version in force and thereby
    raises the number of the load wanted; the others see that within a fraction of a second, load the same version
    from its private copy, and write down the number and the outcome. A worker that starts later takes the version in
    force, whatever lies in the model's folder by then.

    Reading takes no lock, so a worker that was stopped while it wrote holds nobody up.

    Arguments:
        path: The file, made by `WorkerBoard.create`.
        slot: This worker's row.
    """

    def __init__(self, path: Path, slot: int = 0) -> None:
        self.path = path
        self.slot = slot
        numbers = np.memmap(path, dtype=np.int64, mode="r+")
        self._wanted = numbers[:_N_MODELS]
        texts = numbers[_N_MODELS : _N_MODELS + _VERSION_NUMBERS].view(np.uint8)
        self._versions = texts.reshape(_N_MODELS, 2, _VERSION_BYTES)
        self._rows = numbers[_N_MODELS + _VERSION_NUMBERS :].reshape(-1, _PER_WORKER)

    @classmethod
    def create(cls, path: Path, n_workers: int) -> WorkerBoard:
        """Makes the file, written out in full: a hole in a mapped file kills its writer when the disk is full."""
        np.zeros(_N_MODELS + _VERSION_NUMBERS + n_workers * _PER_WORKER, dtype=np.int64).tofile(path)
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

    def beat(self) -> None:
        """Says that this worker's event loop turns."""
        self._rows[self.slot, _BEATS] += 1

    def n_beats(self, slot: int) -> int:
        """Counts the beats of a slot; a count cannot jump as a clock can."""
        return int(self._rows[slot, _BEATS])

    def version_in_force(self, model: int) -> str:
        """Returns the version that every worker serves as model 0 (active) or 1 (shadow); empty if none is yet."""
        while True:
            number = self.wanted(model)
            text = bytes(self._versions[model, number % 2])
            # the next but one load overwrites this text, and cannot have begun while the number stays
            if self.wanted(model) == number:
                return text.rstrip(b"\0").decode()

    def put_in_force(self, model: int, version: str) -> int:
        """Wants every worker to load a version, inside `exclusive`; returns the load's number."""
        number = self.wanted(model) + 1
        content = version.encode()
        if len(content) > _VERSION_BYTES:
            raise ValueError(f"version: got {len(content)} bytes; expected at most {_VERSION_BYTES}")
        self._versions[model, number % 2] = np.frombuffer(content.ljust(_VERSION_BYTES, b"\0"), dtype=np.uint8)
        self._wanted[model] = number
        return number

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
    def exclusive(self) -> Iterator[None]:
        """Holds off other writers. It may wait, so it is not entered in the thread that answers requests."""
        with self.path.open("r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield
