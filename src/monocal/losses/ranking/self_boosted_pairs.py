"""Pairs of a row with the dumped scores of its list: SBCR's objective."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from monocal.core.errors import InvalidInput
from monocal.losses.cross_entropy import cross_entropy
from monocal.losses.ranking.base import RankingLoss
from monocal.losses.ranking.pairs import PairLoss, Pairs


@final
class SelfBoostedPairs(RankingLoss):
    r"""Log-loss plus a pair loss against the scores that the deployed ranker gave to the rest of the list.

    .. math:: L = \mathrm{logloss} + \alpha\,\mathrm{mean}_i\Big[\frac{1}{n_i}\Big(
        \sum_{j:\,y_j < y_i} \mathrm{softplus}(\tilde s_j - s_i) +
        \sum_{j:\,y_j > y_i} \mathrm{softplus}(s_i - \tilde s_j)\Big)\Big]

    Only the row's own score :math:`s_i` is moved; the others' scores :math:`\tilde s` were dumped with the log. A row
    whose list has no other label adds 0. A list is compared as far as it is in the batch.

    References:
        Zhang and others. A self-boosted framework for calibrated ranking. 2024.

    Arguments:
        alpha: Strength of the pair loss.
        divide_by_pairs: True divides a row's sum by its number of pairs :math:`n_i`, False by 1.

    Example:
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1], dtype=torch.float64), torch.tensor([1, 0, 0, 1])
        >>> dumped = torch.tensor([0.3, 0.1, -0.5, 0.8], dtype=torch.float64)
        >>> loss = SelfBoostedPairs(alpha=1.0, divide_by_pairs=False)
        >>> round(loss(z, y, groups=torch.zeros(4), references=dumped).item() - 0.5089943493, 6)
        0.751732
    """

    needs_groups = True
    needs_references = True
    """The dumped logits."""

    def __init__(self, alpha: float = 0.1, divide_by_pairs: bool = True) -> None:
        super().__init__()
        if not alpha >= 0.0:
            raise InvalidInput.of("alpha", alpha, "a number of at least 0", "use 0.1")
        self.alpha, self.divide_by_pairs = alpha, divide_by_pairs

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
        counts = torch.ones_like(labels) if weights is None else weights.to(logits.dtype)
        pairs = Pairs(labels, counts, groups)
        scales = counts / counts.sum()
        if self.divide_by_pairs:
            n_pairs = pairs.counts()
            scales = scales / torch.where(n_pairs > 0.0, n_pairs, 1.0)
        pair_loss: Tensor = PairLoss.apply(logits, references.detach().to(logits.dtype), scales, pairs)  # type: ignore[no-untyped-call]
        return cross_entropy(logits, labels, weights) + self.alpha * pair_loss
