"""Sums over the lists of a batch without a matrix of pairs: time and memory are linear in the rows."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor


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
