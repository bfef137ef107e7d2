"""SCLoss over the values of fields instead of bins of the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from monocal.core.errors import InvalidInput
from monocal.core.fields import FIRST_ID, NULL_ID, STEPS
from monocal.losses.averaged_gaps import AveragedGaps, GroupedRows
from monocal.losses.base import Loss


@final
class FieldCalibrationLoss(Loss):
    r"""Penalises the gap between mean label and mean prediction of every field value, averaged over fields.

    .. math:: \frac1{F B} \sum_f \sum_v |G_{f,v}|\,(\bar y_{f,v} - \bar p_{f,v})^2

    The differentiable neighbour of FECE: what a binned loss hides when errors of two sites cancel in one bin, this
    one sees. Means are bias-corrected moving averages, see `AveragedGaps`; a batch costs the time of its own rows.

    Arguments:
        field_sizes: How many ids each field has, id 0 included; ids beyond count as id 0.
        tau: How much of the past is kept; 0 looks at the batch alone.
        is_numeric: Which fields hold numbers (`core.numeric_ids`): numbers between two knots are one group. None if
            none does.

    Example:
        Both sites are predicted at 0.5; one always clicks, the other never.

        >>> import torch
        >>> loss = FieldCalibrationLoss([3], tau=0.0)
        >>> ids = torch.tensor([[1], [1], [2], [2]])
        >>> loss(torch.zeros(4), torch.tensor([1.0, 1.0, 0.0, 0.0]), None, ids).item()
        0.25
    """

    numbers: Tensor | None
    sizes: Tensor
    offsets: Tensor

    def __init__(self, field_sizes: Sequence[int], tau: float = 0.95, is_numeric: Sequence[bool] | None = None) -> None:
        super().__init__()
        numbers = None if is_numeric is None else torch.as_tensor(list(is_numeric))
        self.register_buffer("numbers", numbers, persistent=False)
        sizes = torch.as_tensor(list(field_sizes), dtype=torch.int64)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("offsets", torch.cumsum(sizes, 0) - sizes, persistent=False)
        self.gaps = AveragedGaps(int(sum(field_sizes)), tau, bias_corrected=True, counts_averaged=False)

    def _loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None, field_ids: Tensor | None) -> Tensor:
        total: Tensor = self.gaps(*self._rows(logits, labels, weights, field_ids))
        n_rows = logits.shape[0] if weights is None else weights.to(torch.float64).sum()
        return total / (n_rows * self.sizes.shape[0])

    def _rows(self, logits: Tensor, labels: Tensor, weights: Tensor | None, field_ids: Tensor | None) -> GroupedRows:
        """Returns every row once per field, as one of its value's group."""
        if field_ids is None:
            raise InvalidInput.of("field_ids", None, "the ids of every row", "pass them, or use SmoothCalibrationLoss")
        n_fields = self.sizes.shape[0]
        ids = field_ids.to(torch.int64)
        if self.numbers is not None:
            knots = torch.div(ids - FIRST_ID, STEPS, rounding_mode="floor") + FIRST_ID
            ids = torch.where(self.numbers & (ids > NULL_ID), knots, ids)
        groups = (torch.where(ids < self.sizes, ids, 0) + self.offsets).reshape(-1)

        def per_field(column: Tensor) -> Tensor:
            return column[:, None].expand(-1, n_fields).reshape(-1)

        return GroupedRows(
            groups,
            per_field(torch.sigmoid(logits)),
            per_field(labels),
            None if weights is None else per_field(weights),
        )
