"""UMC: an unconstrained positive derivative, integrated, then rescaled by the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from monocal.compiled.limits import LOG_SCALE_LIMIT
from monocal.core.errors import InvalidInput, UnknownName
from monocal.neural.modules.blocked_mlp import blocked_mlp, runs_in_blocks
from monocal.neural.modules.field_context import FieldContext, joined
from monocal.neural.modules.mlp import Mlp, generator_of, linear
from monocal.neural.modules.monotone_map import Condition, Context, MonotoneMap, held_between
from monocal.neural.umc.concat_integrand import ConcatIntegrand, Integral, positive
from monocal.neural.umc.knot_integral import KnotIntegral

Integrand = Literal["concat", "knots"]


class UmcMap(MonotoneMap):
    r"""Unconstrained monotone calibration in logit space.

    .. math:: f(t, x) = e^{w(x)} \left( \int_0^t h(v, x)\,dv + \beta \right) + b(x), \qquad h > 0

    Two ways to make the positive derivative h:

    - `concat` (the paper): a network of `[v; x]` with two hidden layers; w and b from a second network of x.
    - `knots`: a network of x emits h at fixed knots, linear in between (see `KnotIntegral`), together with w and b.

    With `integral="exact"` or `integrand="knots"` the map never decreases in t for a fixed x: every piece of the
    integral is non-negative in floating point, and the rescaling multiplies by a positive number.

    References:
        Bai et al. Unconstrained monotonic calibration of predictions in deep ranking systems. SIGIR 2025.

    Arguments:
        context_width: Numbers per context row; 0 makes a map of the score alone.
        integrand: `concat` or `knots`.
        integral: `exact`, `clenshaw_curtis`, `gauss_legendre` or `umnn`; knots are always exact.
        n_steps: Steps of a quadrature rule.
        rescaling: Without it w = b = 0 for every row.
        identity_start: Zeroes the layers behind h, w and b, so that the untrained map returns its input.
        hidden: Widths of the integrand network.
        rescaling_hidden: Widths of the network behind w and b (`concat`).
        trunk: Widths of the network of x (`knots`).
        knots: Positions on the logit axis (`knots`), for example quantiles of the calibration logits.
        n_threads: Threads of the exact kernel in training.
        bias_scale: Standard deviation of the biases at the start (the authors use 1e-4).
        seed: Seed of the initial weights.

    Example:
        >>> import torch
        >>> umc = UmcMap(4)
        >>> umc(torch.tensor([-2.0, 0.5]), torch.zeros(2, 4)).tolist()
        [-2.0, 0.5]
    """

    def __init__(
        self,
        context_width: int,
        *,
        integrand: Integrand = "concat",
        integral: Integral = "exact",
        n_steps: int = 50,
        rescaling: bool = True,
        identity_start: bool = True,
        hidden: tuple[int, int] = (50, 50),
        rescaling_hidden: Sequence[int] = (200, 200),
        trunk: Sequence[int] = (256, 128, 128),
        knots: Sequence[float] | Tensor | None = None,
        n_threads: int = 1,
        bias_scale: float = 0.0,
        seed: int = 0,
    ) -> None:
        if integrand not in get_args(Integrand):
            raise UnknownName.among("integrand", integrand, get_args(Integrand))
        exact = integrand == "knots" or integral == "exact"
        super().__init__(context_width, "weak" if exact else "none")
        generator = generator_of(seed)
        self.integrand: Integrand = integrand
        self.rescaling = rescaling
        self.beta = nn.Parameter(torch.zeros(()))
        if integrand == "knots":
            if knots is None:
                raise InvalidInput.of(
                    "knots", None, "positions on the logit axis", "pass quantiles of the calibration logits"
                )
            self.curve: KnotIntegral | ConcatIntegrand = KnotIntegral(knots)
            n_shape = self.curve.n_knots
        else:
            self.curve = ConcatIntegrand(
                hidden,
                generator,
                integral=integral,
                n_steps=n_steps,
                n_threads=n_threads,
                zero_last=identity_start,
                n_context=context_width,
                bias_scale=bias_scale,
            )
            n_shape = hidden[0]
        if context_width == 0:
            self.constants = nn.Parameter(self._start_of_constants(n_shape, integrand, generator))
        elif integrand == "concat":
            self.offsets = linear(context_width, n_shape, generator, bias_scale)
            if rescaling:
                self.rescaler = Mlp(
                    context_width,
                    rescaling_hidden,
                    2,
                    generator,
                    zero_last=identity_start,
                    bias_scale=bias_scale,
                )
        else:
            self.trunk = Mlp(
                context_width,
                trunk,
                n_shape + 2 * rescaling,
                generator,
                zero_last=identity_start,
                bias_scale=bias_scale,
            )

    def _start_of_constants(self, n_shape: int, integrand: Integrand, generator: torch.Generator) -> Tensor:
        start = torch.zeros(n_shape + 2 * self.rescaling)
        if integrand != "knots":
            # spreads the kinks of the first layer over the score axis, which features do otherwise
            start[:n_shape] = torch.empty(n_shape).uniform_(-1.0, 1.0, generator=generator)
        return start

    def shape_and_scale(self, context: Context, n_rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the integrand's raw parameters `(b, ·)` and the raw w and b of every row."""
        if context is None:
            raw = self.constants.expand(n_rows, -1)
        elif self.integrand == "concat":
            if self.rescaling:
                shape, scales = self._offsets_and_scales(context)
                return shape, scales[:, 0], scales[:, 1]
            raw = self.offsets(joined(context))
        else:
            raw = self.trunk(context)
        return self._parted(raw)

    def _parted(self, raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.rescaling:
            return raw[:, :-2], raw[:, -2], raw[:, -1]
        nothing = raw.new_zeros(raw.shape[0])
        return raw, nothing, nothing

    def _offsets_and_scales(self, context: Tensor | FieldContext) -> tuple[Tensor, Tensor]:
        if runs_in_blocks(context):
            return blocked_mlp(context, self.rescaler.linears, skip=self.offsets)
        vectors = joined(context)
        return self.offsets(vectors), self.rescaler(vectors)

    def _condition(self, context: Context, n_rows: int) -> Condition:
        return self._prepared(*self.shape_and_scale(context, n_rows))

    def _prepared(self, shape: Tensor, log_scales: Tensor, shifts: Tensor) -> Condition:
        scales = torch.exp(held_between(log_scales, -LOG_SCALE_LIMIT, LOG_SCALE_LIMIT).to(torch.float64))
        start = scales * self.beta.to(torch.float64) + shifts.to(torch.float64)
        if isinstance(self.curve, KnotIntegral):
            return (scales, start, *self.curve.prepare(positive(shape)))
        return scales, start, shape

    def _evaluate(self, logits: Tensor, condition: Condition) -> Tensor:
        scales, start, *shape = condition
        result: Tensor = scales * self.curve(logits, *shape) + start
        return result
