"""Sums over pairs of rows in blocks: time grows with the pairs, memory with the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import torch
from torch import Tensor

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
