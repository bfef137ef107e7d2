"""SBCR's calibration module: a distribution function over the score, shaped by the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from monocal.neural.modules.mlp import Mlp, generator_of
from monocal.neural.modules.monotone_map import Condition, Context, MonotoneMap, held_between


@final
class SbcrMap(MonotoneMap):
    r"""Spreads a probability mass of 1 over K equal score intervals and returns the mass below the score.

    .. math:: \alpha = \mathrm{softmax}(\mathrm{net}(x)), \quad
              p' = c_k + (K p - k)\,\alpha_{k+1}, \quad k = \lfloor K p \rfloor, \quad c_k = \sum_{j \le k} \alpha_j

    clipped to `[floor, 1 - floor]` and returned as a logit. The masses are positive, so the map never decreases
    in the score for a fixed x; it is strict between the clips as far as floating point can tell.

    References:
        Zhang et al. A self-boosted framework for calibrated ranking. KDD 2024.

    Arguments:
        context_width: Numbers per context row; pass the encoding of query-side fields only to keep the order
            inside every query.
        n_bins: Number of score intervals K.
        hidden: Widths of the network.
        floor: Smallest probability returned.
        identity_start: Starts with equal masses, which returns the (clipped) score.
        seed: Seed of the initial weights.

    Example:
        >>> import torch
        >>> sbcr = SbcrMap(3, identity_start=True)
        >>> [round(x, 4) for x in sbcr(torch.tensor([-2.0, 1.0]), torch.ones(2, 3)).tolist()]
        [-2.0, 1.0]
    """

    def __init__(
        self,
        context_width: int,
        *,
        n_bins: int = 100,
        hidden: Sequence[int] = (256, 128, 128),
        floor: float = 1e-4,
        identity_start: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(context_width, "weak")
        self.n_bins = n_bins
        self.floor = floor
        if context_width > 0:
            self.masses = Mlp(context_width, hidden, n_bins, generator_of(seed), zero_last=identity_start)
        else:
            self.constants = nn.Parameter(torch.zeros(n_bins))

    def _condition(self, context: Context, n_rows: int) -> Condition:
        raw = self.constants.expand(n_rows, -1) if context is None else self.masses(context)
        # in float32 the many small masses of a sharp softmax would sum to less than 1
        cumulative = torch.cumsum(torch.softmax(raw.to(torch.float64), dim=1), dim=1)
        return (torch.cat([cumulative.new_zeros(n_rows, 1), cumulative], dim=1),)

    def _evaluate(self, logits: Tensor, condition: Condition) -> Tensor:
        (cumulative,) = condition
        places = torch.sigmoid(logits.to(torch.float64)) * self.n_bins
        bins = places.detach().floor().clamp(0, self.n_bins - 1).to(torch.int64)
        below = cumulative.gather(1, bins[:, None])[:, 0]
        upto = cumulative.gather(1, bins[:, None] + 1)[:, 0]
        mass = below + (places - bins) * (upto - below)
        mass = torch.where(mass > upto, upto, mass)
        return torch.logit(held_between(mass, self.floor, 1.0 - self.floor))
