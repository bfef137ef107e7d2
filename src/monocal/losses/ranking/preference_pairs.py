"""Pairs of all rows ordered by label and by the click rates of user and item: BBP's objective."""

from __future__ import annotations

from typing import Literal, final, get_args

import torch
from torch import Tensor

from monocal.core.errors import UnknownName
from monocal.losses.cross_entropy import cross_entropy
from monocal.losses.ranking.base import RankingLoss, check_share
from monocal.losses.ranking.pairs import PairLoss, Pairs

Space = Literal["probability", "logit"]


@final
class PreferencePairs(RankingLoss):
    r"""Log-loss plus a pair loss that also orders rows of equal labels.

    .. math:: L = \lambda\,\mathrm{logloss} + (1-\lambda)\,\mathrm{mean}_{i,j:\,z_i \ne z_j}
        \big[-\ln \sigma(\mathrm{sign}(z_i - z_j)(p_i - p_j))\big], \qquad z_i = y_i + q_i

    where :math:`q_i` in (0, 1) is what the click rates of the row's user and item lead one to expect (see
    `BetaPrior`): a positive row is above every negative one, and rows of equal labels are ordered by q. Pairs are
    taken over the whole batch, in blocks, so memory is linear in the batch while time is quadratic.

    References:
        Liu and others. Beyond binary preference: leveraging Bayesian approaches for joint optimization of ranking and
        calibration. 2024.

    Arguments:
        share: λ, the share of log-loss.
        space: Whether differences are taken of probabilities, as published, or of logits.

    Example:
        >>> z, y = torch.tensor([0.6, -0.4, 0.2, 1.1], dtype=torch.float64), torch.tensor([1, 0, 0, 1])
        >>> expected = torch.tensor([0.25, 0.35, 0.15, 0.25], dtype=torch.float64)
        >>> round(PreferencePairs(share=0.0)(z, y, references=expected).item(), 6)
        0.625346
    """

    needs_references = True
    """The expected click rates."""

    def __init__(self, share: float = 0.5, space: Space = "probability") -> None:
        super().__init__()
        if space not in get_args(Space):
            raise UnknownName.among("space", space, get_args(Space))
        self.share, self.space = check_share("share", share), space

    def _loss(
        self,
        logits: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        _groups: Tensor | None,
        references: Tensor | None,
    ) -> Tensor:
        assert references is not None
        counts = torch.ones_like(labels) if weights is None else weights.to(logits.dtype)
        answers = logits if self.space == "logit" else torch.sigmoid(logits)
        pairs = Pairs(labels + references.detach().to(logits.dtype), counts)
        n_pairs = (counts * pairs.counts()).sum()
        n_pairs = torch.where(n_pairs > 0.0, n_pairs, 1.0)
        ranking: Tensor = PairLoss.apply(answers, answers, counts / n_pairs, pairs)  # type: ignore[no-untyped-call]
        return self.share * cross_entropy(logits, labels, weights) + (1.0 - self.share) * ranking
