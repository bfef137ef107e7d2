"""The paper's integrand, a network of the score and the features, and its integral from 0."""

from __future__ import annotations

import math
import warnings
from typing import Literal, final, get_args

import torch
from torch import Tensor, nn

from monocal.compiled.limits import CAP
from monocal.core.errors import InvalidInput, MonocalWarning, UnknownName
from monocal.neural.modules.compiled_path import runs_compiled
from monocal.neural.modules.mlp import linear, zero_
from monocal.neural.umc.exact_integral import exact_integral
from monocal.neural.umc.quadrature import Rule, quadrature

Integral = Literal["exact", "clenshaw_curtis", "gauss_legendre", "umnn"]


def positive(values: Tensor) -> Tensor:
    r"""Maps any number to a positive one, :math:`1 + \mathrm{ELU}(u) = e^{\min(u,0)} + \max(u,0)`.

    Each side is written by itself, which keeps full relative precision for very negative u, where 1 + ELU would round
    to 0, and makes the derivative at 0, where the identity start is, the one that both sides have.

    Example:
        >>> import torch
        >>> positive(torch.tensor([-20.0, 0.0, 1.5])).tolist()
        [2.061153...e-09, 1.0, 2.5]
    """
    above = values > 0.0
    return torch.where(above, 1.0 + values, torch.exp(torch.where(above, 0.0, values)))


@final
class ConcatIntegrand(nn.Module):
    r"""Integrates a positive network of the score: :math:`U(T) = \int_0^T 1 + \mathrm{ELU}(u(t))\,dt`.

    .. math:: u(t) = w_3 \cdot \mathrm{relu}(W_2\,\mathrm{relu}(w t + a) + b_2) + b_3

    The features enter only through the first-layer offsets a, one row of `hidden[0]` numbers per impression;
    the caller computes them once per row however many nodes are used.

    `exact` uses the closed form of the integral and never decreases in T. The quadrature rules are
    approximations whose nodes move with T and may decrease where u is sharp; they are for parity with the
    publication and for devices without the compiled kernel, where `exact` falls back to them with a warning.

    Arguments:
        hidden: Widths of the two hidden layers.
        integral: `exact`, `clenshaw_curtis`, `gauss_legendre`, or `umnn`, the rule of the authors' code.
        n_steps: Steps of the quadrature rule.
        n_threads: Threads of the exact kernel, over slices of rows; use more than 1 only in training.
        zero_last: Starts with u = 0, hence U(T) = T.
        n_context: Width of the features behind the offsets; only scales the initial slopes.
        bias_scale: Standard deviation of the biases at the start.
        generator: Where the random weights come from.
    """

    def __init__(
        self,
        hidden: tuple[int, int],
        generator: torch.Generator,
        *,
        integral: Integral = "exact",
        n_steps: int = 50,
        n_threads: int = 1,
        zero_last: bool = True,
        n_context: int = 0,
        bias_scale: float = 0.0,
    ) -> None:
        super().__init__()
        if integral not in get_args(Integral):
            raise UnknownName.among("integral", integral, get_args(Integral))
        first, second = hidden
        if max(hidden) > CAP or min(hidden) < 1:
            raise InvalidInput.of("hidden", hidden, f"two widths from 1 to {CAP}", "use (50, 50), the paper's choice")
        self.integral: Integral = integral
        self.n_steps, self.n_threads = n_steps, n_threads
        slopes = torch.empty(first)
        nn.init.normal_(slopes, std=math.sqrt(4.0 / (1 + n_context + first)), generator=generator)
        self.slopes = nn.Parameter(slopes)
        self.second = linear(first, second, generator, bias_scale)
        self.third = linear(second, 1, generator, bias_scale)
        if zero_last:
            zero_(self.third)

    def forward(self, limits: Tensor, offsets: Tensor) -> Tensor:
        """Returns U `(b,)` in float64 for limits `(b,)` and offsets `(b, hidden[0])`."""
        if self.integral == "exact":
            if runs_compiled(limits):
                third = self.third.weight[0]
                return exact_integral(
                    limits,
                    offsets,
                    self.slopes,
                    self.second.weight,
                    self.second.bias,
                    third,
                    self.third.bias,
                    n_threads=self.n_threads,
                )
            warnings.warn(_NO_KERNEL, MonocalWarning, stacklevel=2)
            return self.by_quadrature(limits, offsets, "clenshaw_curtis")
        return self.by_quadrature(limits, offsets, self.integral)

    def by_quadrature(self, limits: Tensor, offsets: Tensor, rule: Rule) -> Tensor:
        """Returns U by a fixed rule, in plain torch operations that any device and exporter know."""
        nodes, weights = quadrature(rule, self.n_steps)
        shares = torch.as_tensor((nodes + 1.0) / 2.0, dtype=offsets.dtype, device=offsets.device)
        halves = torch.as_tensor(weights / 2.0, dtype=torch.float64, device=offsets.device)
        places = limits.to(offsets.dtype)[:, None] * shares
        heights = self.heights(places, offsets)
        return limits.to(torch.float64) * (heights.to(torch.float64) @ halves)

    def heights(self, places: Tensor, offsets: Tensor) -> Tensor:
        """Returns the integrand `(b, m)` at places `(b, m)` for offsets `(b, hidden[0])`."""
        first = torch.relu(places[:, :, None] * self.slopes + offsets[:, None, :])
        second = torch.relu(self.second(first))
        return positive(self.third(second)[:, :, 0])


_NO_KERNEL = (
    "the exact integral needs numba and CPU tensors; using Clenshaw-Curtis here, which is approximate and not "
    'guaranteed to be monotone. Install monocal[neural], move the map to the CPU, or say integral="clenshaw_curtis".'
)
