"""Several losses as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.losses.base import Loss


@final
class WeightedSum(Loss):
    r"""Adds losses, each times its factor: :math:`\sum_j \lambda_j L_j`.

    Arguments:
        parts: Pairs of factor and loss.

    Example:
        >>> import torch
        >>> from monocal.losses import CrossEntropy, SquaredError
        >>> both = WeightedSum([(1.0, CrossEntropy()), (0.5, SquaredError())])
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> round(both(z, y).item(), 6)
        0.590407
    """

    def __init__(self, parts: Sequence[tuple[float, Loss]]) -> None:
        super().__init__()
        if not parts:
            raise InvalidInput.of("parts", "no loss", "at least one", "start with (1.0, CrossEntropy())")
        self.factors = [factor for factor, _ in parts]
        self.losses = nn.ModuleList([loss for _, loss in parts])

    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, field_ids: Tensor | None) -> Tensor:
        values = [loss(logits, labels, weights, field_ids) for loss in self.losses]
        total: Tensor = sum(factor * value for factor, value in zip(self.factors, values, strict=True))
        return total

    def _start_epoch(self) -> None:
        for loss in self.losses:
            assert isinstance(loss, Loss)
            loss.start_epoch()
