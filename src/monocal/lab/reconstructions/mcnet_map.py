"""MCNet's map as a torch module: an integral of a positive network, with a penalty on bins that change places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from monocal.neural.modules.monotone_map import Condition
from monocal.neural.umc.torch_map import UmcMap
from monocal.training.trainable import BatchPenalty


@final
class McnetMap(UmcMap):
    r"""Integrates h at fixed knots and rescales, as UMC's `knots` form, and penalises bins out of order.

    .. math:: f(t, x) = e^{w(x)} \left(\int_0^t h(v, x)\,dv + \beta\right) + b(x), \qquad
              \text{penalty} = \lambda \sum_k \max(0, \bar p'_k - \bar p'_{k+1})

    The bins lie between the knots of the *original* score; :math:`\bar p'_k` is the mean calibrated probability of
    the rows of bin k in the most recent batch, empty bins left out. For one context row the map never decreases;
    the penalty is about rows of different contexts.

    Arguments:
        context_width: Numbers per context row.
        knots: Positions on the logit axis.
        hidden: Widths of the network behind h.
        order_weight: The factor λ.
        identity_start: Whether the untrained map returns its input.
        seed: Seed of the initial weights.

    Example:
        >>> import torch
        >>> net = McnetMap(2, knots=[-1.0, 0.0, 1.0])
        >>> net(torch.tensor([-0.5, 0.5]), torch.zeros(2, 2)).tolist(), net.penalty().item()
        ([-0.5, 0.5], 0.0)
    """

    def __init__(
        self,
        context_width: int,
        *,
        knots: Sequence[float],
        hidden: Sequence[int] = (128, 128),
        order_weight: float = 1.0,
        identity_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(
            context_width,
            integrand="knots",
            knots=knots,
            trunk=hidden,
            identity_start=identity_start,
            seed=seed,
        )
        self.order_weight = order_weight
        self.register_buffer("inner_knots", torch.as_tensor(list(knots)[1:-1], dtype=torch.float64), persistent=False)
        self._bin_sums: Tensor | None = None

    def _evaluate(self, logits: Tensor, condition: Condition) -> Tensor:
        values = super()._evaluate(logits, condition)
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
        return (self.order_weight * torch.relu(means[:-1] - means[1:]).sum()).to(self.beta.dtype)

    def _penalty(self) -> Tensor:
        return super()._penalty() if self._bin_sums is None else self._disorder(self._bin_sums)

    def _batch_penalty(self) -> BatchPenalty | None:
        if not self.order_weight:
            return None

        def sums() -> Tensor:
            assert self._bin_sums is not None
            return self._bin_sums

        return BatchPenalty((2, self.get_buffer("inner_knots").shape[0] + 1), sums, self._disorder)
