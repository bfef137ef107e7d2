"""What the training loop can train."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class Trainable(nn.Module, ABC):
    """A network of logits and field ids whose output is a logit per row."""

    @abstractmethod
    def forward(self, logits: Tensor, field_ids: Tensor | None = None) -> Tensor:
        """Returns logits `(b,)` for logits `(b,)` and field ids `(b, F)`."""

    def penalty(self) -> Tensor:
        """Returns the network's own term of the training loss; 0 unless it needs one."""
        return next(self.parameters()).new_zeros(())

    def set_progress(self, share: float) -> None:
        """Hears which share of the training is done, for choices that harden over time."""
