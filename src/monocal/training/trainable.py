"""What the training loop can train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn


@final
@dataclass(frozen=True)
class BatchPenalty:
    """A penalty that is a function of sums over the rows of a batch.

    Attributes:
        shape: Of the sums.
        sums: Returns those of the most recent batch.
        value: Returns the penalty, from the sums of a whole batch.
    """

    shape: tuple[int, int]
    sums: Callable[[], Tensor]
    value: Callable[[Tensor], Tensor]


class Trainable(nn.Module, ABC):
    """A network of logits and field ids whose output is a logit per row."""

    @abstractmethod
    def forward(self, logits: Tensor, field_ids: Tensor | None = None) -> Tensor:
        """Returns logits `(b,)` for logits `(b,)` and field ids `(b, F)`."""

    def penalty(self) -> Tensor:
        """Returns the network's own term of the training loss; 0 unless it needs one."""
        return next(self.parameters()).new_zeros(())

    def batch_penalty(self) -> BatchPenalty | None:
        """Returns what a penalty is made of that is no mean over rows, for batches that lie in shards; else None."""
        return None

    def set_progress(self, share: float) -> None:
        """Hears which share of the training is done, for choices that harden over time."""
