"""A list-wise softmax with an anchor that gives its scores a scale."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from monocal.core.errors import InvalidInput
from monocal.losses.ranking.base import RankingLoss
from monocal.losses.ranking.lists import Lists

_LARGEST_LOGIT = 30.0
"""Where the decoded probability would be 1 or more; it is 1 in float64 from logit 37 on."""


@final
class CalibratedSoftmax(RankingLoss):
    r"""Softmax cross-entropy over a list and one virtual row of score 0 and label :math:`y_0`.

    .. math:: L = \mathrm{mean}_{lists}\Big[-\sum_i y_i \ln\frac{e^{s_i}}{1 + \sum_j e^{s_j}}
        - y_0 \ln\frac{1}{1 + \sum_j e^{s_j}}\Big]

    At the optimum :math:`e^{s_i} = E[y_i] / y_0`, so the probability is :math:`\min(1, y_0 e^{s_i})`; `decode` gives
    its logit. Lists without a positive row still pull scores towards the anchor.

    References:
        Yan and others. Scale calibration of deep ranking models. 2022.

    Arguments:
        anchor: The virtual row's label :math:`y_0`.

    Example:
        >>> s, y = torch.tensor([0.6, 0.8], dtype=torch.float64), torch.tensor([1, 0])
        >>> loss = CalibratedSoftmax(anchor=0.1)
        >>> round(loss(s, y, groups=torch.zeros(2)).item(), 6)
        1.180817
        >>> loss.decode(s).sigmoid().tolist() # 0.1·e^0.6, 0.1·e^0.8
        [0.182..., 0.222...]
    """

    needs_groups = True

    def __init__(self, anchor: float = 0.1) -> None:
        super().__init__()
        if not anchor > 0.0:
            raise InvalidInput.of("anchor", anchor, "a positive number", "use 0.1; without it scores have no scale")
        self.anchor = anchor

    def decode(self, logits: Tensor) -> Tensor:
        log_p = logits + torch.log(torch.tensor(self.anchor, dtype=logits.dtype))
        below = torch.clamp(log_p, max=-1e-13)
        return torch.clamp(below - torch.log(-torch.expm1(below)), max=_LARGEST_LOGIT)

    def per_list(self, logits: Tensor, labels: Tensor, weights: Tensor | None, lists: Lists) -> Tensor:
        """Returns the loss of each list."""
        counts = torch.ones_like(logits) if weights is None else weights.to(logits.dtype)
        log_total = functional.softplus(lists.log_sum_exp(logits, counts))
        mass = lists.sums(counts * labels) + self.anchor
        return mass * log_total - lists.sums(counts * labels * logits)

    def _loss(
        self,
        logits: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        groups: Tensor | None,
        _references: Tensor | None,
    ) -> Tensor:
        assert groups is not None
        return self.per_list(logits, labels, weights, Lists(groups)).mean()
