"""Training a ranker in row order: every batch is a step, and a training that was killed goes on from a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor, nn

from monocal.core.errors import ArtefactError
from monocal.core.folder import FolderFormat
from monocal.core.format import fingerprint, read_tensors, write_tensors
from monocal.core.progress import progress
from monocal.lab.rankers.lazy_table import LazyTable
from monocal.neural.train import Adam, diverged

if TYPE_CHECKING:
    from monocal.lab.rankers.objective import RankerObjective

CHECKPOINT_FOLDER = FolderFormat(
    "monocal training checkpoint",
    2,
    "checkpoint.json",
    called="a training checkpoint",
    remedy="delete the folder to start anew",
)
"""How a checkpoint lies on disk."""

_TENSORS = "checkpoint.safetensors"


@dataclass(frozen=True)
class RankerTraining:
    """How to train a ranker.

    Attributes:
        n_epochs: Passes over the log.
        batch_rows: Rows per step.
        learning_rate: Adam's rate.
        checkpoint: A folder from which an interrupted training goes on; it is gone when the training is finished.
        checkpoint_batches: Batches between two checkpoints.
        show_progress: True or False; None asks whether somebody watches.
    """

    n_epochs: int
    batch_rows: int
    learning_rate: float
    checkpoint: Path | None = None
    checkpoint_batches: int = 500
    show_progress: bool | None = None


@final
class Optimisers:
    """Adam for dense weights, and for every long table its own lazy form.

    Arguments:
        network: The network; frozen weights are left out.
    """

    def __init__(self, network: nn.Module) -> None:
        tables = [module for module in network.modules() if isinstance(module, LazyTable)]
        own = {id(weight) for table in tables for weight in table.parameters()}
        self.dense = [weight for weight in network.parameters() if weight.requires_grad and id(weight) not in own]
        self.parts: list[Any] = [*([Adam(self.dense)] if self.dense else []), *(table.optimiser() for table in tables)]

    def step(self, learning_rate: float) -> None:
        """Moves the weights against their gradients."""
        for part in self.parts:
            part.param_groups[0]["lr"] = learning_rate
            part.step()

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Returns everything the optimisers remember, as tensors and numbers by name."""
        tensors: dict[str, Tensor] = {}
        numbers: dict[str, float] = {}
        for place, part in enumerate(self.parts):
            for index, remembered in part.state.items():
                for name, value in remembered.items():
                    (tensors if isinstance(value, Tensor) else numbers)[f"{place}.{index}.{name}"] = value
        return tensors, numbers

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, float]) -> None:
        """Takes over what `state` returned, as tensors of its own."""
        for key, value in (*tensors.items(), *numbers.items()):
            place, index, name = key.split(".")
            remembered = self.parts[int(place)].state.setdefault(int(index), {})
            remembered[name] = value.detach().clone() if isinstance(value, Tensor) else value


def train_ranker(objective: RankerObjective, options: RankerTraining) -> list[float]:
    """Trains the objective's network in place and returns the loss of every batch before its step.

    The result depends on the objective and the options alone. With a checkpoint folder, a training that was killed goes
    on from the last checkpoint and ends with the same weights.

    Arguments:
        objective: The network, its rows and its loss.
        options: Rates, batches, checkpoints.
    """
    network, optimisers, losses = objective.network, Optimisers(objective.network), []
    n_rows, n_batches = objective.n_rows, objective.n_batches(options.batch_rows)
    checkpoint = None
    if options.checkpoint is not None:
        checkpoint = Checkpoint(options.checkpoint, training_mark(objective, options))
        losses = checkpoint.resume(network, optimisers)
    first_epoch, n_done = divmod(len(losses), n_batches)
    with progress(objective.title, n_rows * options.n_epochs, show=options.show_progress) as bar:
        bar.advance(first_epoch * n_rows + n_done * options.batch_rows)
        network.train()
        for epoch in range(first_epoch, options.n_epochs):
            for batch in islice(objective.batches(options.batch_rows), n_done, None):
                loss = objective.gradients(batch)
                if not math.isfinite(loss):
                    raise diverged(loss, batch, network, epoch + 1, len(losses) + 1)
                optimisers.step(options.learning_rate)
                losses.append(loss)
                bar.advance(len(batch["rows"]))
                bar.note(f"loss {loss:.5f}")
                ends_epoch = len(losses) == (epoch + 1) * n_batches
                if checkpoint is not None and (ends_epoch or len(losses) % options.checkpoint_batches == 0):
                    checkpoint.save(network, optimisers, losses)
            n_done = 0
    if checkpoint is not None:
        checkpoint.clear()
    return losses


def training_mark(objective: RankerObjective, options: RankerTraining) -> str:
    """Returns a fingerprint of everything that a training's result depends on.

    Network and loss count with their settings and with every number they start from, rows with all that the
    objective's fingerprint covers. Two trainings with the same mark end with the same weights, so that one may go on
    where the other stopped.
    """
    parts: list[Any] = [options.n_epochs, options.batch_rows, options.learning_rate]
    for module in (objective.network, objective.loss):
        parts += [_settings(module), *_contents(module.state_dict())]
    return fingerprint(*parts, objective.fingerprint)


@final
@dataclass(frozen=True)
class Checkpoint:
    """The last finished step of one training, on disk until the training is finished.

    Attributes:
        folder: Where; it holds one checkpoint and nothing else.
        mark: What `training_mark` says about the training.
    """

    folder: Path
    mark: str

    def resume(self, network: nn.Module, optimisers: Optimisers) -> list[float]:
        """Takes over a checkpoint if there is a whole one, and returns the losses so far.

        A damaged checkpoint is left out of account: starting anew costs time and nothing else. One of another
        training is refused, and so is a folder with other files in it.
        """
        CHECKPOINT_FOLDER.check_target(self.folder)
        try:
            entries = CHECKPOINT_FOLDER.read(self.folder)
            CHECKPOINT_FOLDER.verify(self.folder, entries)
            tensors = {name: torch.from_numpy(array) for name, array in read_tensors(self.folder / _TENSORS).items()}
        except ArtefactError:
            return []
        if entries.get("mark") != self.mark:
            raise ArtefactError(
                f"{self.folder}: this checkpoint belongs to other rows, weights, options or layers; nothing was "
                "loaded. Hint: name another folder, or delete this one to start anew"
            )
        network.load_state_dict(_below(tensors, "network"))
        optimisers.restore(_below(tensors, "moments"), entries["facts"]["numbers"])
        losses: list[float] = entries["facts"]["losses"]
        return losses

    def save(self, network: nn.Module, optimisers: Optimisers, losses: list[float]) -> None:
        """Takes the place of the checkpoint before, in one step."""
        moments, numbers = optimisers.state()
        tensors = {f"network/{name}": value.detach().numpy() for name, value in network.state_dict().items()}
        tensors |= {f"moments/{name}": value.numpy() for name, value in moments.items()}
        with CHECKPOINT_FOLDER.writing(self.folder) as temporary:
            write_tensors(temporary / _TENSORS, tensors)
            CHECKPOINT_FOLDER.seal(temporary, {"mark": self.mark, "facts": {"losses": losses, "numbers": numbers}})

    def clear(self) -> None:
        """Removes the checkpoint, if there is one: the training is finished."""
        CHECKPOINT_FOLDER.remove(self.folder)


def _below(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    return {name.partition("/")[2]: value for name, value in tensors.items() if name.startswith(f"{part}/")}


def _contents(values: Mapping[str, Tensor]) -> Iterator[Any]:
    for name, value in values.items():
        yield name
        yield np.asarray(value.detach())


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
