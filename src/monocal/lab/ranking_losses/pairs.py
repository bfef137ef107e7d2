"""Objectives over pairs of rows, summed in blocks: time grows with the pairs, memory with the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, final, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import digamma
from torch import Tensor

from monocal.core.errors import InvalidInput, check_known
from monocal.core.scores import Floats
from monocal.lab.ranking_losses.base import LossRows, RankingLoss, check_share
from monocal.neural.losses import cross_entropy

BLOCK_PAIRS = 1 << 18
"""Pairs that are in memory at a time: 2 MB per number in float64."""


@final
class PairLoss(torch.autograd.Function):
    r"""Computes :math:`\sum_i u_i \sum_j c_{ij}\,\mathrm{softplus}(-d_{ij}\,(a_i - b_j))`.

    The gradient is computed together with the value, block by block, so nothing of the size of the pairs is kept.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, others: Tensor, scales: Tensor, pairs: Pairs) -> Tensor:
        """Returns the sum.

        Arguments:
            ctx: Keeps the gradients.
            rows: The numbers a.
            others: The numbers b.
            scales: The numbers u, one per row.
            pairs: Gives blocks of (i, j, c, d).
        """
        total = rows.new_zeros(())
        for_rows, for_others = torch.zeros_like(rows), torch.zeros_like(others)
        for i, j, counts, directions in pairs.blocks():
            margins = directions * (rows[i] - others[j])
            shares = scales[i] * counts
            total += (shares * torch.nn.functional.softplus(-margins)).sum()
            slopes = -shares * directions * torch.sigmoid(-margins)
            for_rows.index_add_(0, i, slopes)
            for_others.index_add_(0, j, -slopes)
        ctx.save_for_backward(for_rows, for_others)
        return total

    @staticmethod
    def backward(ctx: Any, *upper: Any) -> tuple[Tensor, Tensor, None, None]:
        """Hands on the kept gradients."""
        for_rows, for_others = ctx.saved_tensors
        return upper[0] * for_rows, upper[0] * for_others, None, None


@final
class Pairs:
    """Pairs (i, j) of rows of one list whose order is known.

    Arguments:
        order: j belongs above i where its number is larger; rows of equal numbers make no pair.
        weights: How often row j counts.
        groups: Number of each row's list; None means that all rows are one list.
    """

    def __init__(self, order: Tensor, weights: Tensor, groups: Tensor | None = None) -> None:
        self._order, self._weights = order, weights
        lists = torch.zeros_like(order, dtype=torch.int64) if groups is None else groups
        _, of_row, sizes = torch.unique(lists, return_inverse=True, return_counts=True)
        self._members = torch.argsort(of_row, stable=True)
        self._first = (sizes.cumsum(0) - sizes)[of_row]
        self._size = sizes[of_row]

    def counts(self) -> Tensor:
        """Returns how many rows of another order each row's list has, by weight."""
        total = torch.zeros_like(self._weights)
        for i, _, counts, _ in self.blocks():
            total.index_add_(0, i, counts)
        return total

    def blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Yields rows i, rows j, how often the pair counts, and +1 where i belongs above j, −1 where below."""
        ends = self._size.cumsum(0)
        n_pairs = int(ends[-1]) if len(ends) else 0
        for start in range(0, n_pairs, BLOCK_PAIRS):
            numbers = torch.arange(start, min(start + BLOCK_PAIRS, n_pairs))
            i = torch.searchsorted(ends, numbers, right=True)
            j = self._members[self._first[i] + numbers - (ends[i] - self._size[i])]
            directions = torch.sign(self._order[i] - self._order[j])
            known = directions != 0
            i, j = i[known], j[known]
            yield i, j, self._weights[j], directions[known].to(self._weights.dtype)


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

    def _loss(self, logits: Tensor, rows: LossRows) -> Tensor:
        pairs = Pairs(rows.labels, rows.counts, rows.groups)
        scales = rows.counts / rows.counts.sum()
        if self.divide_by_pairs:
            n_pairs = pairs.counts()
            scales = scales / torch.where(n_pairs > 0.0, n_pairs, 1.0)
        pair_loss: Tensor = PairLoss.apply(logits, rows.references, scales, pairs)  # type: ignore[no-untyped-call]
        return cross_entropy(logits, rows.labels, rows.weights) + self.alpha * pair_loss


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
        check_known("space", space, get_args(Space))
        self.share, self.space = check_share("share", share), space

    def _loss(self, logits: Tensor, rows: LossRows) -> Tensor:
        counts = rows.counts
        answers = logits if self.space == "logit" else torch.sigmoid(logits)
        pairs = Pairs(rows.labels + rows.references, counts)
        n_pairs = (counts * pairs.counts()).sum()
        n_pairs = torch.where(n_pairs > 0.0, n_pairs, 1.0)
        ranking: Tensor = PairLoss.apply(answers, answers, counts / n_pairs, pairs)  # type: ignore[no-untyped-call]
        return self.share * cross_entropy(logits, rows.labels, rows.weights) + (1.0 - self.share) * ranking


_MOST_MASS = 1e4
"""Rates that vary less than chance would drive a + b to infinity."""

_SMALL = 1e-8


@final
@dataclass(frozen=True)
class BetaPrior:
    r"""A Beta(a, b) distribution of click rates over the values of a field.

    Example:
        >>> prior = BetaPrior.fit(n=[20, 30, 25, 40], clicks=[1, 12, 2, 4])
        >>> round(prior.a, 4), round(prior.b, 4)
        (1.7151, 8.8446)
        >>> prior.posterior_means([20, 0], [1, 0]).round(4).tolist()
        [0.0888, 0.1624]
    """

    a: float
    b: float

    @classmethod
    def fit(
        cls,
        n: ArrayLike,
        clicks: ArrayLike,
        start: tuple[float, float] = (5.0, 5.0),
        max_iterations: int = 10_000,
        tolerance: float = 1e-10,
    ) -> BetaPrior:
        r"""Maximises the likelihood of the counts by a fixed point.

        .. math:: a \leftarrow a\,\frac{\sum \psi(c + a) - \psi(a)}{\sum \psi(n + a + b) - \psi(a + b)}, \qquad
            b \leftarrow b\,\frac{\sum \psi(n - c + b) - \psi(b)}{\sum \psi(n + a + b) - \psi(a + b)}

        Arguments:
            n: Impressions of each value.
            clicks: Clicks of each value.
            start: Where to start.
            max_iterations: Steps allowed.
            tolerance: Stops when neither number moves by more.
        """
        shown, clicked = np.asarray(n, dtype=np.float64), np.asarray(clicks, dtype=np.float64)
        if shown.shape != clicked.shape or np.any(clicked > shown) or np.any(clicked < 0):
            raise InvalidInput.of("clicks", clicks, "between 0 and n, one per value", "count both on the same rows")
        a, b = start
        for _ in range(max_iterations):
            below = np.sum(digamma(shown + a + b) - digamma(a + b)) + _SMALL
            next_a = a * (np.sum(digamma(clicked + a) - digamma(a)) + _SMALL) / below
            next_b = b * (np.sum(digamma(shown - clicked + b) - digamma(b)) + _SMALL) / below
            moved = max(abs(next_a - a), abs(next_b - b))
            a, b = float(next_a), float(next_b)
            if a + b > _MOST_MASS:
                a, b = a * _MOST_MASS / (a + b), b * _MOST_MASS / (a + b)
                break
            if moved < tolerance:
                break
        return cls(a, b)

    def posterior_means(self, n: ArrayLike, clicks: ArrayLike) -> Floats:
        """Returns the click rate of each value after its counts; the prior's mean for one that was never seen."""
        shown, clicked = np.asarray(n, dtype=np.float64), np.asarray(clicks, dtype=np.float64)
        means: Floats = (clicked + self.a) / (shown + self.a + self.b)
        return means
