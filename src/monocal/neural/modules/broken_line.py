"""Broken lines through fixed knots on the logit axis, with trainable values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.neural.modules.monotone_map import Condition, Context, MonotoneMap, held_between


def equal_probability_knots(n_knots: int) -> Tensor:
    r"""Returns the logits of :math:`k/(K+1), k = 1 \dots K`, in float64.

    Example:
        >>> [round(knot, 6) for knot in equal_probability_knots(4).tolist()]
        [-1.386294, -0.405465, 0.405465, 1.386294]
    """
    if n_knots < 2:
        raise InvalidInput.of("n_knots", n_knots, "at least 2", "use 100, the paper's choice")
    return torch.logit(torch.arange(1, n_knots + 1, dtype=torch.float64) / (n_knots + 1))


def interpolate(places: Tensor, values: Tensor, at: Tensor) -> Tensor:
    """Evaluates row i's broken line through `(places[i], values[i])`, both `(b, K + 1)`, at `at[i]`.

    Never decreases in `at` when places increase and values do not decrease: inside a segment a non-negative number
    is multiplied and added, and the result is capped by the segment's right value.

    Example:
        >>> import torch
        >>> places = torch.tensor([[0.0, 0.2, 1.0]]).repeat(4, 1)
        >>> values = torch.tensor([[0.02, 0.15, 0.6]]).repeat(4, 1)
        >>> [round(x, 5) for x in interpolate(places, values, torch.tensor([0.1, 0.2, 0.5, 1.0])).tolist()]
        [0.085, 0.15, 0.31875, 0.6]
    """
    reached = (at.detach()[:, None] >= places[:, 1:-1]).sum(dim=1)[:, None]
    left, right = places.gather(1, reached)[:, 0], places.gather(1, reached + 1)[:, 0]
    low, high = values.gather(1, reached)[:, 0], values.gather(1, reached + 1)[:, 0]
    share = held_between((at - left) / (right - left), 0.0, 1.0)
    inside = low + share * (high - low)
    return torch.where((high >= low) & (inside > high), high, inside)


def disorder(values: Tensor) -> Tensor:
    r"""Returns :math:`\sum \max(0, b_k - b_{k+1})` along the last dimension, summed over the others.

    Example:
        >>> import torch
        >>> round(disorder(torch.tensor([0.2, 0.15, 0.6])).item(), 6)
        0.05
    """
    return torch.relu(values[..., :-1] - values[..., 1:]).sum()


@final
class BrokenLine(nn.Module):
    r"""Interpolates trainable values b at fixed knots a, constant outside the first and last one.

    .. math:: \eta(t) = b_k + (t - a_k) \frac{b_{k+1} - b_k}{a_{k+1} - a_k + \epsilon}

    With `hard_monotone` the running maximum of b is used instead of b, so the line never decreases; while
    the values are in order both agree. Without it, order is only encouraged by `disorder`.

    Arguments:
        knots: Increasing positions on the logit axis; the values start there too, which makes the identity.
        epsilon: Added to every knot distance; the released code of UMC's authors uses 1e-4.
        hard_monotone: Whether to guarantee order.

    Example:
        >>> import torch
        >>> line = BrokenLine([-1.0, 1.0], epsilon=0.0)
        >>> line(torch.tensor([-3.0, 0.5])).tolist()
        [-1.0, 0.5]
    """

    knots: Tensor

    def __init__(self, knots: Sequence[float] | Tensor, epsilon: float = 1e-4, *, hard_monotone: bool = False) -> None:
        super().__init__()
        places = torch.as_tensor(knots, dtype=torch.float64).clone()
        self.register_buffer("knots", places)
        self.values = nn.Parameter(places.to(torch.float32).clone())
        self.epsilon = epsilon
        self.hard_monotone = hard_monotone

    def forward(self, logits: Tensor) -> Tensor:
        """Returns the line at logits `(b,)` in float64."""
        values = self.values.to(torch.float64)
        if self.hard_monotone:
            values = torch.cummax(values, dim=0).values
        t = held_between(logits.to(torch.float64), self.knots[0], self.knots[-1])
        segment = (torch.searchsorted(self.knots, t.detach(), right=True) - 1).clamp(0, self.knots.shape[0] - 2)
        gaps = self.knots[1:] - self.knots[:-1] + self.epsilon
        slopes = (values[1:] - values[:-1]) / gaps
        inside = values[segment] + (t - self.knots[segment]) * slopes[segment]
        # the last knot belongs to no segment, so it takes its own value
        inside = torch.where(t >= self.knots[-1], values[-1], inside)
        if self.hard_monotone:
            inside = torch.where(inside > values[segment + 1], values[segment + 1], inside)
        return inside

    def disorder(self) -> Tensor:
        """Returns how far the values are out of order, 0 when they are not."""
        return disorder(self.values)


@final
class PiecewiseMap(MonotoneMap):
    """A broken line of the logit alone: UMC without its integrated network and without features.

    Arguments:
        n_knots: Knots at equally spaced probabilities.
        epsilon: See `BrokenLine`.
        hard_monotone: See `BrokenLine`; without it the map may decrease and is tagged so.

    Example:
        >>> import torch
        >>> line = PiecewiseMap(100)
        >>> [round(x, 4) for x in line(torch.tensor([-6.0, 1.5])).tolist()]
        [-4.6052, 1.4999]
    """

    def __init__(self, n_knots: int = 100, *, epsilon: float = 1e-4, hard_monotone: bool = False) -> None:
        super().__init__(0, "weak" if hard_monotone else "none")
        self.line = BrokenLine(equal_probability_knots(n_knots), epsilon, hard_monotone=hard_monotone)

    def _condition(self, _context: Context, _n_rows: int) -> Condition:
        return ()

    def _evaluate(self, logits: Tensor, _condition: Condition) -> Tensor:
        result: Tensor = self.line(logits)
        return result

    def _penalty(self) -> Tensor:
        return self.line.disorder()
