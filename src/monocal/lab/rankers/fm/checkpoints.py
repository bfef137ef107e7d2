"""Checkpoints of a training run: JSON and safetensors, each in a folder that is there whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch

from monocal.core.errors import ArtefactError
from monocal.core.files import atomic_folder
from monocal.lab.rankers.fm.trainer import FmState
from monocal.lab.rankers.tensor_files import read_tensors, write_tensors

_PROGRESS = "progress.json"


@final
@dataclass(frozen=True)
class Checkpoints:
    """Where one piece of work keeps its state.

    Arguments:
        folder: The folder; it may hold checkpoints of other work, which are left alone.
        mark: Fingerprint of the work: only its own checkpoints are ever read.
        every_batches: How often to write.
    """

    folder: Path
    mark: str
    every_batches: int

    def is_due(self, n_steps: int) -> bool:
        return n_steps % self.every_batches == 0

    def write(self, state: FmState, losses: list[float]) -> None:
        """Writes the state, then removes older ones: at every moment the latest whole one is there."""
        target = self._place(state.n_steps)
        dense = {"dense": state.dense.numpy(), "moments1": state.moments1.numpy(), "moments2": state.moments2.numpy()}
        with atomic_folder(target) as temporary:
            write_tensors(temporary / "store.safetensors", {"store": state.store})
            write_tensors(temporary / "dense.safetensors", dense)
            (temporary / _PROGRESS).write_text(json.dumps({"n_steps": state.n_steps, "losses": losses}))
        for old in self._all():
            if old != target:
                shutil.rmtree(old)

    def read(self) -> tuple[FmState, list[float]] | None:
        """Returns the latest state with its losses, or None if there is nothing to go on from.

        What a kill left half written is removed: a checkpoint may be gigabytes.
        """
        for half in self.folder.glob(f".{self.mark[:16]}-batch-*"):
            shutil.rmtree(half)
        for place in reversed(self._all()):
            try:
                progress = json.loads((place / _PROGRESS).read_text())
                dense = {name: torch.from_numpy(a) for name, a in read_tensors(place / "dense.safetensors").items()}
                store = read_tensors(place / "store.safetensors")["store"]
                state = FmState(store, n_steps=progress["n_steps"], **dense)
                return state, progress["losses"]
            except (OSError, ValueError, KeyError, TypeError, ArtefactError):
                # A damaged checkpoint is worth less than the time to start again.
                continue
        return None

    def clear(self) -> None:
        """Removes this work's checkpoints."""
        for place in self._all():
            shutil.rmtree(place)

    def _place(self, n_steps: int) -> Path:
        return self.folder / f"{self.mark[:16]}-batch-{n_steps:09d}"

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.mark[:16]}-batch-*")) if self.folder.is_dir() else []
