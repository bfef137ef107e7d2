"""List-wise distillation from a teacher that a calibrated student can follow."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from monocal.losses.cross_entropy import cross_entropy
from monocal.losses.ranking.base import RankingLoss, check_share
from monocal.losses.ranking.lists import Lists
from monocal.losses.ranking.rcr import list_cross_entropy


@final
class ListwiseDistillation(RankingLoss):
    r"""Log-loss plus cross-entropy of the teacher's probabilities to the student's, each normalised over the list.

    .. math:: L = \alpha\,\mathrm{logloss} + (1-\alpha)\,\mathrm{mean}_{lists}\Big[-\sum_i Q_i \ln P_i\Big], \qquad
        Q_i = \frac{q_i}{\sum_j q_j},\quad P_i = \frac{p_i}{\sum_j p_j},\quad p = \sigma(z)

    The student :math:`p = q` makes the second term smallest, so a calibrated teacher does not pull against log-loss.

    References:
        Gui and others. Calibration-compatible listwise distillation of privileged features for CTR prediction. 2024.

    Arguments:
        alpha: Share of log-loss.

    Example:
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1], dtype=torch.float64), torch.tensor([1, 0, 0, 1])
        >>> teacher = torch.logit(torch.tensor([0.8, 0.2, 0.35, 0.9], dtype=torch.float64))
        >>> round(ListwiseDistillation()(z, y, groups=torch.zeros(4), references=teacher).item(), 6)
        0.903423
    """

    needs_groups = True
    needs_references = True
    """The teacher's logits."""

    def __init__(self, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = check_share("alpha", alpha)

    def _loss(
        self,
        logits: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        groups: Tensor | None,
        references: Tensor | None,
    ) -> Tensor:
        assert groups is not None
        assert references is not None
        teacher = torch.sigmoid(references.detach().to(logits.dtype))
        distillation = list_cross_entropy(logits, teacher, weights, Lists(groups)).mean()
        return self.alpha * cross_entropy(logits, labels, weights) + (1.0 - self.alpha) * distillation
