"""Regression-compatible ranking: a list-wise term whose optimum is the probability itself."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from monocal.losses.cross_entropy import cross_entropy
from monocal.losses.ranking.base import RankingLoss, check_share
from monocal.losses.ranking.lists import Lists


@final
class RegressionCompatibleRanking(RankingLoss):
    r"""Log-loss plus cross-entropy of labels to probabilities, each normalised over the list.

    .. math:: L = (1-\alpha)\,\mathrm{logloss} + \alpha\,\mathrm{mean}_{lists}\Big[-\frac{1}{\sum_j y_j}
        \sum_i y_i \ln\frac{p_i}{\sum_j p_j}\Big], \qquad p = \sigma(z)

    Probabilities stand where a softmax has exponentials, so both terms are smallest at :math:`p_i = E[y_i]`. Lists
    without a positive row add 0.

    References:
        Bai and others. Regression compatible listwise objectives for calibrated ranking with binary relevance. 2023.

    Arguments:
        alpha: Share of the list-wise term.

    Example:
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1], dtype=torch.float64), torch.tensor([1, 0, 0, 1])
        >>> round(RegressionCompatibleRanking()(z, y, groups=torch.zeros(4)).item(), 6)
        0.862285
    """

    needs_groups = True

    def __init__(self, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = check_share("alpha", alpha)

    def _loss(
        self,
        logits: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        groups: Tensor | None,
        _references: Tensor | None,
    ) -> Tensor:
        assert groups is not None
        listwise = list_cross_entropy(logits, labels, weights, Lists(groups)).mean()
        return (1.0 - self.alpha) * cross_entropy(logits, labels, weights) + self.alpha * listwise


def list_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor | None, lists: Lists) -> Tensor:
    r"""Returns :math:`-\sum_i t_i \ln(p_i / \sum_j p_j) / \sum_j t_j` of each list, 0 where no target is positive."""
    counts = torch.ones_like(logits) if weights is None else weights.to(logits.dtype)
    log_p = functional.logsigmoid(logits)
    shares = counts * targets
    totals = lists.sums(shares)
    losses = lists.sums(shares * (lists.log_sum_exp(log_p, counts)[lists.of_row] - log_p))
    return losses / torch.where(totals > 0.0, totals, 1.0)
