"""Log-loss row by row: the usual objective of a ranker."""

from __future__ import annotations

from typing import final

from torch import Tensor

from monocal.losses.cross_entropy import cross_entropy
from monocal.losses.ranking.base import RankingLoss


@final
class LogLoss(RankingLoss):
    r"""The weighted mean of :math:`\ln(1 + e^z) - y z`; lists do not matter.

    Example:
        >>> import torch
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> round(LogLoss()(z, y).item(), 6)
        0.508994
    """

    def _loss(
        self,
        logits: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        _groups: Tensor | None,
        _references: Tensor | None,
    ) -> Tensor:
        return cross_entropy(logits, labels, weights)
