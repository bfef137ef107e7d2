"""FAC: a broken line of the score plus a network of the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from monocal.neural.modules.broken_line import BrokenLine, equal_probability_knots
from monocal.neural.modules.mlp import Mlp, generator_of
from monocal.neural.modules.monotone_map import Condition, Context, MonotoneMap


@final
class FacMap(MonotoneMap):
    r"""Field-aware calibration: one broken line for all rows, shifted by the features.

    .. math:: f(t, x) = \eta(t) + g(x), \qquad \text{penalty} = \sum_k \max(0, b_k - b_{k+1})

    The line is flat outside its knots, so scores below 1/(K+1) or above K/(K+1) collapse to one value each.
    Order is encouraged by the penalty and guaranteed only with `hard_monotone`.

    References:
        Pan et al. Field-aware calibration: a simple and empirically strong method for reliable probabilistic
        predictions. WWW 2020.

    Arguments:
        context_width: Numbers per context row.
        n_knots: Knots at equally spaced probabilities.
        hidden: Widths of the network g.
        epsilon: Added to knot distances, as the released code of UMC's authors does.
        hard_monotone: Uses the running maximum of the line's values.
        identity_start: Starts with g = 0.
        seed: Seed of the initial weights.

    Example:
        >>> import torch
        >>> fac = FacMap(3, identity_start=True)
        >>> round(fac(torch.tensor([1.5]), torch.ones(1, 3)).item(), 3), fac.penalty().item()
        (1.5, 0.0)
    """

    def __init__(
        self,
        context_width: int,
        *,
        n_knots: int = 100,
        hidden: Sequence[int] = (200, 200),
        epsilon: float = 1e-4,
        hard_monotone: bool = False,
        identity_start: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(context_width, "weak" if hard_monotone else "none")
        self.line = BrokenLine(equal_probability_knots(n_knots), epsilon, hard_monotone=hard_monotone)
        if context_width > 0:
            self.shift = Mlp(context_width, hidden, 1, generator_of(seed), zero_last=identity_start)

    def _condition(self, context: Context, n_rows: int) -> Condition:
        if context is None:
            return (self.line.knots.new_zeros(n_rows),)
        return (self.shift(context)[:, 0].to(torch.float64),)

    def _evaluate(self, logits: Tensor, condition: Condition) -> Tensor:
        (shifts,) = condition
        result: Tensor = self.line(logits) + shifts
        return result

    def _penalty(self) -> Tensor:
        return self.line.disorder()
