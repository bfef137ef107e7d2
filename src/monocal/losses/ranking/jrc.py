"""Joint ranking and calibration with two logits per row."""

from __future__ import annotations

from typing import Literal, final, get_args

import torch
from torch import Tensor
from torch.nn import functional

from monocal.core.errors import UnknownName
from monocal.losses.base import weighted_mean
from monocal.losses.ranking.base import RankingLoss, check_share
from monocal.losses.ranking.lists import Lists

Competitors = Literal["all", "other_label"]


@final
class JointRankingCalibration(RankingLoss):
    r"""Cross-entropy over the two logits of a row plus cross-entropy over the rows of a list.

    .. math:: L = \alpha\,\mathrm{mean}_i\Big[-\ln\frac{e^{f_{y_i}(i)}}{e^{f_0(i)} + e^{f_1(i)}}\Big]
        + (1-\alpha)\,\mathrm{mean}_i\Big[-\ln\frac{e^{f_{y_i}(i)}}{\sum_{j \in C(i)} e^{f_{y_i}(j)}}\Big]

    The probability is :math:`\sigma(f_1 - f_0)`. Adding a constant to both logits of one row leaves it alone but moves
    the second term: this freedom is what the ranking term uses. A list of one row adds nothing to it.

    References:
        Sheng and others. Joint optimization of ranking and calibration with contextualized hybrid model. 2023.

    Arguments:
        alpha: Share of the first term.
        competitors: C(i) is the whole list (`all`), or the rows of the other label and the row itself (`other_label`);
            both are in public use.

    Example:
        >>> f = torch.tensor([[0.1, 0.7], [0.3, -0.1], [-0.2, 0.0], [0.0, 1.1]], dtype=torch.float64)
        >>> y, lists = torch.tensor([1, 0, 0, 1]), torch.tensor([1, 1, 2, 2])
        >>> round(JointRankingCalibration()(f, y, groups=lists).item(), 6)
        0.511336
    """

    needs_groups = True
    n_logits = 2

    def __init__(self, alpha: float = 0.5, competitors: Competitors = "all") -> None:
        super().__init__()
        if competitors not in get_args(Competitors):
            raise UnknownName.among("competitors", competitors, get_args(Competitors))
        self.alpha, self.competitors = check_share("alpha", alpha), competitors

    def decode(self, logits: Tensor) -> Tensor:
        return logits[..., 1] - logits[..., 0]

    def _loss(
        self,
        logits: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        groups: Tensor | None,
        _references: Tensor | None,
    ) -> Tensor:
        assert groups is not None
        pointwise = functional.softplus(torch.where(labels > 0.5, -1.0, 1.0) * (logits[:, 1] - logits[:, 0]))
        listwise = self.per_row(logits, labels, weights, Lists(groups))
        return self.alpha * weighted_mean(pointwise, weights) + (1.0 - self.alpha) * weighted_mean(listwise, weights)

    def per_row(self, logits: Tensor, labels: Tensor, weights: Tensor | None, lists: Lists) -> Tensor:
        """Returns the ranking term of each row: how unlikely it is among its competitors, seen through its label."""
        own = torch.where(labels > 0.5, logits[:, 1], logits[:, 0])
        return self._denominators(logits, labels, weights, lists, own) - own

    def _denominators(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None, lists: Lists, own: Tensor
    ) -> Tensor:
        counts = torch.ones_like(labels) if weights is None else weights.to(logits.dtype)
        if self.competitors == "all":
            by_label = [lists.log_sum_exp(logits[:, label], counts)[lists.of_row] for label in (0, 1)]
            return torch.where(labels > 0.5, by_label[1], by_label[0])
        # the competitors of a positive row are its list's negative rows, seen through logit 1, and the other way round
        others = [
            lists.log_sum_exp(logits[:, label], counts * (labels <= 0.5 if label else labels > 0.5))[lists.of_row]
            for label in (0, 1)
        ]
        return torch.logaddexp(torch.where(labels > 0.5, others[1], others[0]), own)
