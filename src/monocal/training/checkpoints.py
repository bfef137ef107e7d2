"""A training that was interrupted goes on from its last checkpoint, to the same result."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from monocal.core.errors import ArtefactError
from monocal.core.files import atomic_folder
from monocal.core.fingerprint import fingerprint
from monocal.core.tensor_files import read_tensors, write_tensors
from monocal.training.averaging import WeightAverage
from monocal.training.history import TrainingHistory
from monocal.training.objective import Objective
from monocal.training.optimisers import Optimisers
from monocal.training.options import TrainingOptions

_JSON, _TENSORS = "checkpoint.json", "checkpoint.safetensors"
_FREE = ("n_threads", "checkpoint", "checkpoint_batches", "show_progress")


@final
class TrainingState:
    """Everything that one step hands to the next.

    Arguments:
        network: The network.
        loss: The loss, whose running averages are part of the state.
        optimisers: Their moments.
        average: Averaged weights.
        history: Losses so far.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: nn.Module,
        optimisers: Optimisers,
        average: WeightAverage,
        history: TrainingHistory,
    ) -> None:
        self.network, self.loss = network, loss
        self.optimisers, self.average = optimisers, average
        self.history = history
        self.best: dict[str, Tensor] = {}

    def keep_best(self) -> None:
        """Remembers the present weights as the best ones."""
        self.best = {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def settle(self) -> None:
        """Leaves the network with its best weights, or with the averaged ones if nothing was held out."""
        if self.best:
            self.network.load_state_dict(self.best)
        else:
            self.average.settle()


def training_mark(objective: Objective, options: TrainingOptions) -> str:
    """Returns a fingerprint of what must be unchanged for a checkpoint to be of use."""
    kept = {name: value for name, value in asdict(options).items() if name not in _FREE}
    shapes = {name: list(value.shape) for name, value in objective.network.state_dict().items()}
    return fingerprint(kept, shapes, objective.fingerprint())


def save_checkpoint(folder: str | Path, mark: str, state: TrainingState) -> None:
    """Writes the state; the folder appears whole or not at all."""
    moments, numbers = state.optimisers.state()
    averages = {str(index): value for index, value in enumerate(state.average.averages)}
    tensors = {
        f"{part}/{name}": value.detach().numpy()
        for part, values in {
            "network": state.network.state_dict(),
            "loss": state.loss.state_dict(),
            "moments": moments,
            "best": state.best,
            "average": averages,
        }.items()
        for name, value in values.items()
    }
    facts = {
        "format": "monocal training checkpoint 1",
        "mark": mark,
        "history": state.history.as_dict(),
        "numbers": numbers,
        "average_mass": state.average.mass,
    }
    with atomic_folder(folder) as temporary:
        write_tensors(temporary / _TENSORS, tensors)
        (temporary / _JSON).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def load_checkpoint(folder: str | Path, mark: str, state: TrainingState) -> bool:
    """Takes over a checkpoint if there is a whole one; refuses one of another training.

    A damaged checkpoint is left out of account: the training starts anew, which costs time and nothing else.
    """
    folder = Path(folder)
    try:
        facts: dict[str, Any] = json.loads((folder / _JSON).read_text(encoding="utf-8"))
        tensors = read_tensors(folder / _TENSORS)
    except (OSError, ValueError, ArtefactError):
        return False
    if facts.get("mark") != mark:
        raise ArtefactError(
            f"{folder}: this checkpoint belongs to other rows, options or layers; nothing was loaded. "
            "Way out: name another folder, or delete this one to start anew"
        )
    parts: dict[str, dict[str, Tensor]] = {}
    for name, array in tensors.items():
        part, _, rest = name.partition("/")
        parts.setdefault(part, {})[rest] = torch.from_numpy(array)
    state.network.load_state_dict(parts["network"])
    state.loss.load_state_dict(parts.get("loss", {}))
    state.optimisers.restore(parts.get("moments", {}), facts["numbers"])
    state.best = parts.get("best", {})
    for index, value in parts.get("average", {}).items():
        state.average.averages[int(index)].copy_(value)
    state.average.mass = facts["average_mass"]
    state.history.__dict__.update(facts["history"])
    return True
