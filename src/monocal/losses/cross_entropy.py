"""Binary cross-entropy on logits."""

from __future__ import annotations

from typing import final

from torch import Tensor
from torch.nn import functional

from monocal.losses.base import Loss, weighted_mean


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    r"""Returns the weighted mean of :math:`\ln(1 + e^z) - y z`, which is the log-loss of :math:`\sigma(z)`.

    Arguments:
        logits: z, one per row.
        labels: y, 0 or 1 per row.
        weights: How often each row counts.

    Example:
        >>> import torch
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> round(cross_entropy(z, y).item(), 6)
        0.508994
    """
    losses = functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    return weighted_mean(losses, None if weights is None else weights.to(logits.dtype))


@final
class CrossEntropy(Loss):
    """`cross_entropy` as a loss, to be put into a `WeightedSum`."""

    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, _field_ids: Tensor | None) -> Tensor:
        return cross_entropy(logits, labels, weights)
