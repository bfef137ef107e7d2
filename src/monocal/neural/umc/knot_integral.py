"""An integrand given by its values at fixed knots, and its exact integral."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput


@final
class KnotIntegral(nn.Module):
    r"""Integrates the broken line through positive heights at fixed knots, measured from the middle knot.

    Between knots j and j+1, :math:`\Delta` apart, with :math:`\delta = t - \kappa_j`:

    .. math:: U(t) = \kappa_m + c_j + \delta h_j + \delta^2 \frac{h_{j+1} - h_j}{2\Delta}

    Outside the knots the height is constant. Heights of 1 give U(t) = t. U has a continuous derivative.

    **Never decreases, also in floating point.** A rising segment is evaluated from its left end and a falling
    one from its right end. Either way the distance from that end is multiplied and added with non-negative
    numbers only, each a monotone operation after rounding, and the result is held between the segment's end
    values, which are partial sums of non-negative numbers. All in float64.

    Its pieces are chosen by `torch.where`: where two of them meet, at knots and between equal heights, both have the
    same derivative, and that is the gradient.

    Arguments:
        knots: At least two increasing positions on the logit axis.

    Example:
        Heights 1, 1, 3 at knots -1, 0, 1: a slope of 1 up to 0, then growing to 3.

        >>> import torch
        >>> integral = KnotIntegral([-1.0, 0.0, 1.0])
        >>> heights = torch.tensor([[1.0, 1.0, 3.0]]).repeat(4, 1)
        >>> integral(torch.tensor([-2.0, -0.5, 1.0, 2.0]), *integral.prepare(heights)).tolist()
        [-2.0, -0.5, 2.0, 5.0]
    """

    knots: Tensor

    def __init__(self, knots: Sequence[float] | Tensor) -> None:
        super().__init__()
        places = torch.as_tensor(knots, dtype=torch.float64).clone()
        if places.ndim != 1 or places.shape[0] < 2 or not bool((places[1:] > places[:-1]).all()):
            raise InvalidInput.of(
                "knots", places.tolist(), "at least two increasing positions", "use distinct quantiles of the logits"
            )
        self.register_buffer("knots", places)

    @property
    def n_knots(self) -> int:
        return int(self.knots.shape[0])

    def prepare(self, heights: Tensor) -> tuple[Tensor, Tensor]:
        """Returns heights in float64 and the integral at every knot, both `(b, n_knots)`."""
        h = heights.to(torch.float64)
        steps = (self.knots[1:] - self.knots[:-1]) * (h[:, 1:] + h[:, :-1]) * 0.5
        middle = (self.n_knots - 1) // 2
        origin = self.knots[middle].expand(h.shape[0], 1)
        up = origin + torch.cumsum(steps[:, middle:], dim=1)
        down = origin - torch.cumsum(steps[:, :middle].flip(1), dim=1).flip(1)
        return h, torch.cat([down, origin, up], dim=1)

    def forward(self, logits: Tensor, heights: Tensor, values: Tensor) -> Tensor:
        """Returns U `(b,)` in float64 at logits `(b,)` for what `prepare` returned."""
        t = logits.to(torch.float64)
        last = self.n_knots - 2
        segment = (torch.searchsorted(self.knots, t.detach().contiguous(), right=True) - 1).clamp(0, last)
        left, right = self.knots[segment], self.knots[segment + 1]
        index = segment[:, None]
        h0, h1 = heights.gather(1, index)[:, 0], heights.gather(1, index + 1)[:, 0]
        u0, u1 = values.gather(1, index)[:, 0], values.gather(1, index + 1)[:, 0]
        rise, fall = t - left, right - t
        halved = (h1 - h0) / (2.0 * (right - left))
        from_left = u0 + rise * (h0 + rise * halved)
        from_left = torch.where(from_left > u1, u1, from_left)
        from_right = u1 - fall * (h1 - fall * halved)
        from_right = torch.where(from_right < u0, u0, from_right)
        inside = torch.where(h1 >= h0, from_left, from_right)
        return torch.where(rise < 0.0, u0 + rise * h0, torch.where(fall <= 0.0, u1 - fall * h1, inside))
