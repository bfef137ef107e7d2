"""Objectives that compare the rows of a list: sums over lists without a matrix of pairs."""

from __future__ import annotations

from typing import Literal, final, get_args

import torch
from torch import Tensor
from torch.nn import functional

from monocal.core.errors import InvalidInput, check_known
from monocal.lab.ranking_losses.base import LossRows, RankingLoss, check_share
from monocal.neural.losses import cross_entropy, weighted_mean


@final
class Lists:
    """The rows of a batch by list.

    Arguments:
        groups: Number of each row's list; any integers, in any order.

    Example:
        >>> lists = Lists(torch.tensor([7, 3, 7]))
        >>> lists.n_lists, lists.sums(torch.tensor([1.0, 10.0, 100.0])).tolist()
        (2, [10.0, 101.0])
        >>> lists.log_sum_exp(torch.tensor([0.0, 2.0, 0.0])).tolist()[0]
        2.0
    """

    def __init__(self, groups: Tensor) -> None:
        found, self.of_row = torch.unique(groups, return_inverse=True)
        self.n_lists = len(found)

    def sums(self, values: Tensor) -> Tensor:
        """Returns the sum of each list's values."""
        return values.new_zeros(self.n_lists).index_add(0, self.of_row, values)

    def log_sum_exp(self, logits: Tensor, weights: Tensor | None = None) -> Tensor:
        r"""Returns :math:`\ln \sum_j w_j e^{z_j}` of each list; −∞ where all weights are 0."""
        if weights is not None:
            logits = logits + weights.log()
        lowest = logits.new_full((self.n_lists,), -torch.inf)
        largest = lowest.scatter_reduce(0, self.of_row, logits.detach(), "amax")
        shift = torch.where(largest.isfinite(), largest, 0.0)
        total = self.sums((logits - shift[self.of_row]).exp())
        # where a list has no weight the sum is 0; its logarithm must not turn gradients into NaN
        return torch.where(total > 0.0, total, 1.0).log() + torch.where(total > 0.0, shift, -torch.inf)


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

    def _loss(self, logits: Tensor, rows: LossRows) -> Tensor:
        listwise = list_cross_entropy(logits, rows.labels, rows).mean()
        return (1.0 - self.alpha) * cross_entropy(logits, rows.labels, rows.weights) + self.alpha * listwise


def list_cross_entropy(logits: Tensor, targets: Tensor, rows: LossRows) -> Tensor:
    r"""Returns :math:`-\sum_i t_i \ln(p_i / \sum_j p_j) / \sum_j t_j` of each list, 0 where no target is positive."""
    lists, log_p = Lists(rows.groups), functional.logsigmoid(logits)
    shares = rows.counts * targets
    totals = lists.sums(shares)
    losses = lists.sums(shares * (lists.log_sum_exp(log_p, rows.counts)[lists.of_row] - log_p))
    return losses / torch.where(totals > 0.0, totals, 1.0)


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
        check_known("competitors", competitors, get_args(Competitors))
        self.alpha, self.competitors = check_share("alpha", alpha), competitors

    def decode(self, logits: Tensor) -> Tensor:
        return logits[..., 1] - logits[..., 0]

    def _loss(self, logits: Tensor, rows: LossRows) -> Tensor:
        pointwise = functional.softplus(torch.where(rows.labels > 0.5, -1.0, 1.0) * (logits[:, 1] - logits[:, 0]))
        listwise, weights = self.per_row(logits, rows), rows.weights
        return self.alpha * weighted_mean(pointwise, weights) + (1.0 - self.alpha) * weighted_mean(listwise, weights)

    def per_row(self, logits: Tensor, rows: LossRows) -> Tensor:
        """Returns the ranking term of each row: how unlikely it is among its competitors, seen through its label."""
        lists, is_positive = Lists(rows.groups), rows.labels > 0.5
        own = torch.where(is_positive, logits[:, 1], logits[:, 0])
        competitors = [rows.counts, rows.counts]
        if self.competitors == "other_label":
            # a positive row competes with its list's negative rows, seen through logit 1, and the other way round
            competitors = [rows.counts * is_positive, rows.counts * ~is_positive]
        by_label = [lists.log_sum_exp(logits[:, label], competitors[label])[lists.of_row] for label in (0, 1)]
        together = torch.where(is_positive, by_label[1], by_label[0])
        return (together if self.competitors == "all" else torch.logaddexp(together, own)) - own


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

    def _loss(self, logits: Tensor, rows: LossRows) -> Tensor:
        lists, clicks = Lists(rows.groups), rows.counts * rows.labels
        log_total = functional.softplus(lists.log_sum_exp(logits, rows.counts))
        return ((lists.sums(clicks) + self.anchor) * log_total - lists.sums(clicks * logits)).mean()


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

    def _loss(self, logits: Tensor, rows: LossRows) -> Tensor:
        distillation = list_cross_entropy(logits, torch.sigmoid(rows.references), rows).mean()
        return self.alpha * cross_entropy(logits, rows.labels, rows.weights) + (1.0 - self.alpha) * distillation
