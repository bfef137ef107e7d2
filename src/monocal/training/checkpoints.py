"""A training that was interrupted goes on from its last checkpoint, to the same result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from monocal.core.errors import ArtefactError
from monocal.core.folder import FolderFormat
from monocal.core.format import fingerprint, read_tensors, write_tensors
from monocal.training.history import TrainingHistory
from monocal.training.objective import Objective
from monocal.training.optimisers import Optimisers
from monocal.training.options import TrainingOptions

CHECKPOINT_FOLDER = FolderFormat(
    "monocal training checkpoint",
    2,
    "checkpoint.json",
    called="a training checkpoint",
    remedy="delete the folder to start anew",
)
"""How a checkpoint lies on disk."""

_TENSORS = "checkpoint.safetensors"
_FREE = ("n_threads", "checkpoint", "checkpoint_batches", "show_progress")


@final
class TrainingState:
    """Everything that one step hands to the next.

    Arguments:
        network: The network.
        loss: The loss, whose running averages are part of the state.
        optimisers: Their moments.
        history: Losses so far.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: nn.Module,
        optimisers: Optimisers,
        history: TrainingHistory,
    ) -> None:
        self.network, self.loss = network, loss
        self.optimisers = optimisers
        self.history = history
        self.best: dict[str, Tensor] = {}

    def keep_best(self) -> None:
        """Remembers the present weights as the best ones."""
        self.best = {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def settle(self) -> None:
        """Leaves the network with its best weights, or with the last ones if nothing was held out."""
        if self.best:
            self.network.load_state_dict(self.best)


def training_mark(objective: Objective, options: TrainingOptions) -> str:
    """Returns a fingerprint of everything that a training's result depends on.

    Network and loss count with their settings and with every number they start from, rows with all that
    `Objective.fingerprint` covers. Two trainings with the same mark end with the same weights, so that one may go on
    where the other stopped.

    Arguments:
        objective: As it is before the first step.
        options: How to train.
    """
    parts: list[Any] = [{name: value for name, value in asdict(options).items() if name not in _FREE}]
    for module in (objective.network, objective.loss):
        parts += [_settings(module), *_contents(module.state_dict())]
    return fingerprint(*parts, objective.fingerprint())


@final
@dataclass(frozen=True)
class Checkpoint:
    """The last finished step of one training, on disk until the training is finished.

    Arguments:
        folder: Where; it holds one checkpoint and nothing else.
        mark: What `training_mark` says about the training.
    """

    folder: Path
    mark: str

    def load(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None:
        """Returns tensors by part and name, and the facts beside them; None if there is no whole checkpoint.

        A damaged checkpoint is left out of account: starting anew costs time and nothing else. One of another
        training is refused, and so is a folder with other files in it.
        """
        found = self._read()
        if found is None:
            return None
        facts, tensors = found
        parts: dict[str, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            part, _, rest = name.partition("/")
            parts.setdefault(part, {})[rest] = value
        return parts, facts

    def _read(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        CHECKPOINT_FOLDER.check_target(self.folder)
        try:
            entries = CHECKPOINT_FOLDER.read(self.folder)
            CHECKPOINT_FOLDER.verify(self.folder, entries)
            tensors = read_tensors(self.folder / _TENSORS)
        except ArtefactError:
            return None
        if entries.get("mark") != self.mark:
            raise ArtefactError(
                f"{self.folder}: this checkpoint belongs to other rows, weights, options or layers; nothing was "
                "loaded. Hint: name another folder, or delete this one to start anew"
            )
        return entries["facts"], {name: torch.from_numpy(array) for name, array in tensors.items()}

    def save(self, parts: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]) -> None:
        """Takes the place of the checkpoint before, in one step."""
        tensors = {
            f"{part}/{name}": value.detach().numpy() for part, values in parts.items() for name, value in values.items()
        }
        with CHECKPOINT_FOLDER.writing(self.folder) as temporary:
            write_tensors(temporary / _TENSORS, tensors)
            CHECKPOINT_FOLDER.seal(temporary, {"mark": self.mark, "facts": dict(facts)})

    def clear(self) -> None:
        """Removes the checkpoint, if there is one: the training is finished."""
        CHECKPOINT_FOLDER.remove(self.folder)


def save_checkpoint(checkpoint: Checkpoint, state: TrainingState) -> None:
    """Writes a training's state."""
    moments, numbers = state.optimisers.state()
    parts: dict[str, Mapping[str, Tensor]] = {
        "network": state.network.state_dict(),
        "loss": state.loss.state_dict(),
        "moments": moments,
        "best": state.best,
    }
    facts = {"history": state.history.as_dict(), "numbers": numbers}
    checkpoint.save(parts, facts)


def load_checkpoint(checkpoint: Checkpoint, state: TrainingState) -> bool:
    """Takes over a checkpoint if there is one; refuses one of another training."""
    found = checkpoint.load()
    if found is None:
        return False
    parts, facts = found
    state.network.load_state_dict(parts["network"])
    state.loss.load_state_dict(parts.get("loss", {}))
    state.optimisers.restore(parts.get("moments", {}), facts["numbers"])
    state.best = parts.get("best", {})
    state.history.__dict__.update(facts["history"])
    return True


def _contents(values: Mapping[str, Tensor]) -> Iterator[Any]:
    for name, value in values.items():
        yield name
        yield np.asarray(value.detach().cpu())


def _settings(module: nn.Module) -> list[Any]:
    """Kind and plain public attributes of a module and of all modules inside it."""
    return [
        [
            name,
            type(part).__qualname__,
            {key: repr(value) for key, value in vars(part).items() if not key.startswith("_") and _is_plain(value)},
        ]
        for name, part in module.named_modules()
    ]


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str) or is_dataclass(value)
