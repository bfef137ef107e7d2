"""What a training minimises: a network on rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray
from torch import nn

from monocal.core.batches import iterate_batches
from monocal.training.options import TrainingOptions

Batch = Mapping[str, NDArray[Any]]


class Objective(ABC):
    """A network, the columns it learns from, and how a batch of them becomes gradients.

    The loop owns rates, checks, checkpoints and progress; an objective owns everything that depends on what is
    learned. A subclass writes `columns`, `fingerprint` and `gradients`, and `batches` with `n_batches` if rows have to
    come together.

    Arguments:
        network: What is trained, in place.
        loss: What is minimised; its buffers are part of a checkpoint.
    """

    title: str = "training"
    """What the progress bar says."""

    def __init__(self, network: nn.Module, loss: nn.Module) -> None:
        self.network, self.loss = network, loss

    @abstractmethod
    def columns(self) -> Batch:
        """Returns the columns by name: arrays or memory maps with one entry per row."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Returns what changes with any row, label or weight that the network learns from or is judged by."""

    @abstractmethod
    def gradients(self, batch: Batch) -> float:
        """Writes the gradients of a batch into the weights and returns its loss, the number that is reported.

        Arguments:
            batch: Some rows of `columns`, with their row numbers under `rows`.
        """

    def n_batches(self, options: TrainingOptions) -> int:
        """Returns the batches of one pass over the rows."""
        return math.ceil(len(next(iter(self.columns().values()))) / options.batch_rows)

    def batches(self, options: TrainingOptions, epoch: int) -> Iterator[Batch]:
        """Yields every row of `columns` once, with its row number under `rows`."""
        seed = options.seed if options.shuffle else None
        return iterate_batches(self.columns(), options.batch_rows, seed=seed, epoch=epoch, with_rows=True)

    def start_epoch(self) -> None:  # noqa: B027  # a hook that most objectives leave alone
        """Hears that the next batch is the first of a pass over the rows."""

    def set_progress(self, share: float) -> None:  # noqa: B027
        """Hears which share of the training is done."""

    def held_out_loss(self) -> float | None:
        """Returns the loss on held-out rows, or None if nothing was held out."""
        return None
