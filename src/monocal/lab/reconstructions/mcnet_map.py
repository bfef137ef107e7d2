"""MCNet's map as a torch module: an integral of a positive network, with a penalty on bins that change places."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from monocal.neural.maps import Parts, umc
from monocal.neural.network import Context, MonotoneMap
from monocal.ops.operations import Ops


@final
class McnetMap(MonotoneMap):
    r"""Integrates h at fixed knots and rescales, as UMC's `knots` form, and penalises bins out of order.

    .. math:: f(t, x) = e^{w(x)} \left(\int_0^t h(v, x)\,dv + \beta\right) + b(x), \qquad
              \text{penalty} = \lambda \sum_k \max(0, \bar p'_k - \bar p'_{k+1})

    The bins lie between the knots of the *original* score; :math:`\bar p'_k` is the mean calibrated probability of
    the rows of bin k in the most recent batch, empty bins left out. For one context row the map never decreases;
    the penalty is about rows of different contexts.

    Arguments:
        parts: What `umc` learns.
        context_width: Numbers per context row.
        order_weight: The factor λ.
        seed: Seed of the initial weights.

    Example:
        >>> import torch
        >>> from monocal.neural.maps import umc_parts
        >>> net = McnetMap(umc_parts(2, [-1.0, 0.0, 1.0], (8,)), context_width=2)
        >>> net(torch.tensor([-0.5, 0.5]), torch.zeros(2, 2)).tolist(), net.penalty().item()
        ([-0.5, 0.5], 0.0)
    """

    def __init__(self, parts: Parts, *, context_width: int, order_weight: float = 1.0, seed: int = 0) -> None:
        super().__init__(parts, self._values, context_width=context_width, seed=seed)
        self.order_weight = order_weight
        self.register_buffer("inner_knots", self.get_buffer("knots")[1:-1], persistent=False)
        self._bin_sums: Tensor | None = None

    def _values(self, ops: Ops, logits: Tensor, context: Context) -> Tensor:
        values: Tensor = umc(ops, logits, context)
        if self.training and self.order_weight:
            self._bin_sums = self._sums_of_bins(logits, values)
        return values

    def _sums_of_bins(self, logits: Tensor, values: Tensor) -> Tensor:
        """Returns how many rows every bin has, and the sum of their probabilities."""
        inner = self.get_buffer("inner_knots")
        bins = torch.bucketize(logits.detach().to(torch.float64), inner)
        zeros = values.new_zeros(inner.shape[0] + 1)
        counts = zeros.index_add(0, bins, torch.ones_like(values))
        return torch.stack([counts, zeros.index_add(0, bins, torch.sigmoid(values))])

    def _disorder(self, sums: Tensor) -> Tensor:
        filled = sums[:, sums[0] > 0]
        means = filled[1] / filled[0]
        return (self.order_weight * torch.relu(means[:-1] - means[1:]).sum()).to(self.get_parameter("beta").dtype)

    def penalty(self) -> Tensor:
        return super().penalty() if self._bin_sums is None else self._disorder(self._bin_sums)
