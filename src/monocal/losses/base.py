"""The one interface of every objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from torch import Tensor, nn


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
    def start_epoch(self) -> None:
        """Tells the loss that the next batch is the first of a pass over the data."""
        self._start_epoch()

    @abstractmethod
    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, field_ids: Tensor | None) -> Tensor: ...

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
