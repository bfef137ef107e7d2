"""One learned shift per field value, added to a map's output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from monocal.core.spaces import Floats
from monocal.neural.modules.context_encoder import check_field_ids, field_offsets
from monocal.neural.modules.field_context import rows_of_ids


@final
class WideShift(nn.Module):
    r"""Sums one scalar per field value: :math:`\sum_f v_f[x_f]`, a logit shift that does not depend on the score.

    Added to a monotone map it keeps the map monotone, because for a fixed row it is a constant.
    Every shift starts at 0, so a fresh module changes nothing.

    Arguments:
        field_sizes: How many ids each field has, id 0 (unseen) included.
        sparse: Makes gradients sparse, for optimisers that support it.

    Example:
        >>> import torch
        >>> wide = WideShift([3, 2])
        >>> wide.set_([[0.0, 0.5, -1.0], [0.0, 0.25]])
        >>> wide(torch.tensor([[1, 1], [2, 0], [0, 0]])).tolist()
        [0.75, -1.0, 0.0]
    """

    field_sizes: Tensor
    offsets: Tensor

    def __init__(self, field_sizes: Sequence[int], *, sparse: bool = False) -> None:
        super().__init__()
        self.register_buffer("field_sizes", torch.as_tensor(list(field_sizes), dtype=torch.int64), persistent=False)
        self.register_buffer("offsets", field_offsets(field_sizes), persistent=False)
        self.sparse = sparse
        self.shifts = nn.Parameter(torch.zeros(int(sum(field_sizes)), 1))

    @classmethod
    def frozen(cls, field_sizes: Sequence[int], shifts: Floats | None) -> Self | None:
        """Returns shifts that stay while a map beside them is trained; None if there are none.

        Arguments:
            field_sizes: How many ids each field has.
            shifts: One per id, field after field.
        """
        if shifts is None:
            return None
        wide = cls(field_sizes)
        ends = np.cumsum(field_sizes)[:-1]
        wide.set_([part.tolist() for part in np.split(shifts, ends)])
        wide.requires_grad_(False)
        return wide

    def forward(self, field_ids: Tensor) -> Tensor:
        check_field_ids(field_ids, self.field_sizes)
        rows = rows_of_ids(field_ids, self.field_sizes, self.offsets)
        return functional.embedding(rows, self.shifts, sparse=self.sparse).sum(dim=(1, 2))

    @torch.no_grad()
    def set_(self, shifts: Sequence[Sequence[float]]) -> None:
        """Starts from given shifts, one list per field (for example those of a fitted logistic regression)."""
        values = torch.cat([torch.as_tensor(list(field), dtype=torch.float32) for field in shifts])
        self.shifts.copy_(values.reshape(-1, 1))
