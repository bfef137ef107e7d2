"""The one interface of every objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from monocal.core.team import Shards


@final
@dataclass(frozen=True)
class BatchPart:
    """The rows of a batch that lie in one shard; there may be none.

    Attributes:
        logits: As in `Loss.forward`, like the other columns.
        labels: 0 or 1 per row.
        weights: How often each row counts; None means once.
        field_ids: Field ids `(b, F)`.
        mass: The weight of all rows together.
    """

    logits: Tensor
    labels: Tensor
    weights: Tensor | None
    field_ids: Tensor | None
    mass: float


class Loss(nn.Module, ABC):
    """Turns calibrated logits and labels of one batch into one number to minimise.

    A row of weight k counts as k rows. A loss may remember earlier batches in its buffers; it does so only in
    training mode, and `start_epoch` tells it when a new pass over the data begins.
    """

    @final  # type: ignore[misc]  # torch declares forward as a plain attribute
    def forward(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None = None, field_ids: Tensor | None = None
    ) -> Tensor:
        """Returns a scalar.

        Arguments:
            logits: Calibrated logits `(b,)`.
            labels: 0 or 1 per row.
            weights: How often each row counts; None means once.
            field_ids: Field ids `(b, F)`, for losses that look at groups of rows.
        """
        return self._loss(logits, labels, weights, field_ids)

    @final
    def of_shards(self, parts: Sequence[BatchPart], shards: Shards) -> list[Tensor]:
        """Returns a scalar per own shard; their mean over all shards, by mass, is the loss of the whole batch.

        The same holds for the gradients. What stands for a shard without rows means nothing.

        Arguments:
            parts: The batch's rows of each own shard.
            shards: With whom they are added up.
        """
        return self._of_shards(parts, shards)

    @final
    def start_epoch(self) -> None:
        """Tells the loss that the next batch is the first of a pass over the data."""
        self._start_epoch()

    @abstractmethod
    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, field_ids: Tensor | None) -> Tensor: ...

    def _of_shards(self, parts: Sequence[BatchPart], _shards: Shards) -> list[Tensor]:
        """A mean over rows is that of the shards' means; other losses have more to tell each other."""
        return [
            self._loss(part.logits, part.labels, part.weights, part.field_ids)
            if len(part.logits)
            else part.logits.new_zeros(())
            for part in parts
        ]

    def _start_epoch(self) -> None:
        """Forgets what must not outlive an epoch; nothing by default."""


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Returns the mean in which a row of weight k counts k times.

    Example:
        >>> import torch
        >>> weighted_mean(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 1.0])).item()
        2.0
    """
    if weights is None:
        return values.mean()
    return (values * weights).sum() / weights.sum()
