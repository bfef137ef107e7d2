"""What a training minimises: a network on rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from torch import nn

Batch = Mapping[str, NDArray[Any]]


class Objective(ABC):
    """A network, the columns it learns from, and how a batch of them becomes gradients.

    The loop owns batches, rates, checks, checkpoints and progress; an objective owns everything that depends on what
    is learned. A subclass writes `columns`, `fingerprint` and `gradients`.

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

    def start_epoch(self) -> None:  # noqa: B027  # a hook that most objectives leave alone
        """Hears that the next batch is the first of a pass over the rows."""

    def set_progress(self, share: float) -> None:  # noqa: B027
        """Hears which share of the training is done."""

    def held_out_loss(self) -> float | None:
        """Returns the loss on held-out rows, or None if nothing was held out."""
        return None
