"""Squared gaps between mean label and mean prediction per group of rows, with moving averages over batches."""

from __future__ import annotations

from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput


class GroupedRows(NamedTuple):
    """Rows and the group that each belongs to."""

    groups: Tensor
    probabilities: Tensor
    labels: Tensor
    weights: Tensor | None


@final
class AveragedGaps(nn.Module):
    r"""Sums :math:`c_k (\bar y_k - \bar p_k)^2` over the groups k that occur in a batch.

    The means are moving averages, :math:`m \leftarrow \tau m + (1-\tau)\,\text{batch mean}`. Earlier batches are
    constants to the gradient; it flows through the present batch's share alone. Groups that a batch does not
    contain keep their averages and cost nothing, so the work per batch is that of its own rows however many groups
    there are.

    Arguments:
        n_groups: How many groups there are.
        tau: How much of the past is kept; 0 looks at the batch alone.
        bias_corrected: Divides a moving average by :math:`1 - \tau^n` after n updates of its group, so that it is
            an average from the first batch on instead of creeping up from 0.
        counts_averaged: Weighs a group by the moving average of its size instead of its size in the batch.
    """

    label_means: Tensor
    score_means: Tensor
    counts: Tensor
    masses: Tensor

    def __init__(self, n_groups: int, tau: float, *, bias_corrected: bool, counts_averaged: bool) -> None:
        super().__init__()
        if not 0.0 <= tau < 1.0:
            raise InvalidInput.of("tau", tau, "a number in [0, 1)", "0.95 remembers about twenty batches")
        if n_groups < 1:
            raise InvalidInput.of("n_groups", n_groups, "at least 1", "use 10 bins")
        self.tau = tau
        self.bias_corrected = bias_corrected
        self.counts_averaged = counts_averaged
        for name in ("label_means", "score_means", "counts", "masses"):
            self.register_buffer(name, torch.zeros(n_groups, dtype=torch.float64))

    def forward(self, groups: Tensor, probabilities: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        """Returns the sum for one batch; in training mode the averages move on."""
        present, place = torch.unique(groups, return_inverse=True)
        return self._value(present, _sums(GroupedRows(place, probabilities, labels, weights), present.shape[0]))

    def _value(self, present: Tensor, sums: Tensor) -> Tensor:
        """Returns the sum over groups, from the sizes, labels and predictions of each."""
        sizes, label_sums, score_sums = sums
        filled = sizes > 0.0
        per_row = torch.where(filled, 1.0 / sizes.clamp(min=1e-300), 0.0)
        keep, new = self.tau, 1.0 - self.tau
        score_means = keep * self.score_means[present] + new * (score_sums * per_row)
        label_means = keep * self.label_means[present] + new * (label_sums * per_row)
        counts = keep * self.counts[present] + new * sizes
        masses = keep * self.masses[present] + new
        gaps = label_means - score_means
        if self.bias_corrected:
            gaps = gaps / masses
        if self.training:
            self._remember(present[filled], label_means, score_means, counts, masses, filled)
        shares = counts if self.counts_averaged else sizes
        return torch.where(filled, shares * gaps.square(), 0.0).sum()

    def reset(self) -> None:
        """Forgets every batch."""
        for buffer in self.buffers():
            buffer.zero_()

    @torch.no_grad()
    def _remember(
        self, present: Tensor, labels: Tensor, scores: Tensor, counts: Tensor, masses: Tensor, filled: Tensor
    ) -> None:
        for buffer, moved in (
            (self.label_means, labels),
            (self.score_means, scores),
            (self.counts, counts),
            (self.masses, masses),
        ):
            buffer[present] = moved[filled]


def _sums(rows: GroupedRows, n_groups: int) -> Tensor:
    """Returns sizes, sums of labels and sums of predictions of every group."""
    scores = rows.probabilities.to(torch.float64)
    times = torch.ones_like(scores) if rows.weights is None else rows.weights.to(torch.float64)
    columns = times, times * rows.labels.to(torch.float64), times * scores
    zeros = scores.new_zeros(n_groups)
    return torch.stack([zeros.index_add(0, rows.groups, column) for column in columns])
