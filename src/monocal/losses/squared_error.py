"""The Brier score as a loss."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from monocal.losses.base import Loss, weighted_mean


def squared_error(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Returns the weighted mean of :math:`(\sigma(z) - y)^2`.

    Arguments:
        logits: z, one per row.
        labels: y, 0 or 1 per row.
        weights: How often each row counts.

    Example:
        >>> import torch
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> round(squared_error(z, y).item(), 6)
        0.162825
    """
    losses = (torch.sigmoid(logits) - labels.to(logits.dtype)).square()
    return weighted_mean(losses, None if weights is None else weights.to(logits.dtype))


@final
class SquaredError(Loss):
    """`squared_error` as a loss, to be put into a `WeightedSum`."""

    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, _field_ids: Tensor | None) -> Tensor:
        return squared_error(logits, labels, weights)
