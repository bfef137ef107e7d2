"""The published form of UMC as a torch module: a network of score and features, integrated and rescaled."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, cast, final, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from monocal.compiled.jit import LOG_SCALE_LIMIT, numba_is_installed
from monocal.core.errors import InvalidInput, MonocalWarning, UnknownName, check_known
from monocal.lab.exact_concat.walk import CAP
from monocal.neural.context import affine, generator_of
from monocal.neural.maps import Network, positive
from monocal.neural.network import Context, Mlp, MonotoneMap, linear, zero_
from monocal.ops.operations import Ops
from monocal.ops.torch_ops import TorchOps, held_between

Integral = Literal["exact", "clenshaw_curtis", "gauss_legendre", "umnn"]
TORCH = cast("Ops", TorchOps(nn.Module()))

Rule = Literal["clenshaw_curtis", "gauss_legendre", "umnn"]
NodesAndWeights = tuple[NDArray[np.float64], NDArray[np.float64]]


@cache
def clenshaw_curtis(n_steps: int, *, last_halved: bool = True) -> NodesAndWeights:
    r"""Returns the `n_steps + 1` nodes :math:`\cos(k\pi/n)` and weights of Clenshaw-Curtis.

    .. math:: w_k = \frac{g_k}{n} \sum_{j=0}^{\lfloor n/2\rfloor} \frac{b_j}{1-4j^2} \cos\frac{2jk\pi}{n}

    with :math:`g_0 = g_n = 1`, other :math:`g_k = 2`; :math:`b_0 = 1`, other :math:`b_j = 2`, and
    :math:`b_{n/2} = 1` for even n. Polynomials up to degree n are integrated exactly.

    References:
        Clenshaw, Curtis. A method for numerical integration on an automatic computer. 1960.
        Wehenkel, Louppe. Unconstrained monotonic neural networks. 2019.

    Arguments:
        n_steps: One less than the number of nodes.
        last_halved: Without it :math:`b_{n/2} = 2`, as in the code of UMNN and hence of UMC; for odd n that is the
            same rule, and for n = 50 weights differ by at most 1.6e-5.

    Example:
        >>> nodes, weights = clenshaw_curtis(4)
        >>> (weights * 15).round(6).tolist()
        [1.0, 8.0, 12.0, 8.0, 1.0]
        >>> clenshaw_curtis(4, last_halved=False)[1].round(7).tolist()
        [0.05, 0.5666667, 0.7666667, 0.5666667, 0.05]
    """
    if n_steps < 1:
        raise InvalidInput.of("n_steps", n_steps, "at least 1", "use 50, the paper's choice")
    k = np.arange(n_steps + 1)
    j = np.arange(n_steps // 2 + 1)
    b = np.where(j == 0, 1.0, 2.0)
    if n_steps % 2 == 0 and last_halved:
        b[-1] = 1.0
    g = np.where((k == 0) | (k == n_steps), 1.0, 2.0)
    cosines = np.cos(2.0 * np.pi * np.outer(k, j) / n_steps)
    weights = g / n_steps * (cosines @ (b / (1.0 - 4.0 * j**2)))
    nodes = np.cos(k * np.pi / n_steps)
    return _frozen(nodes), _frozen(weights)


@cache
def gauss_legendre(n_steps: int) -> NodesAndWeights:
    """Returns the `n_steps` nodes and weights of Gauss-Legendre.

    Example:
        >>> nodes, weights = gauss_legendre(2)
        >>> (nodes**2 * 3).round(6).tolist(), weights.round(6).tolist()
        ([1.0, 1.0], [1.0, 1.0])
    """
    if n_steps < 1:
        raise InvalidInput.of("n_steps", n_steps, "at least 1", "use 32")
    nodes, weights = np.polynomial.legendre.leggauss(n_steps)
    return _frozen(nodes), _frozen(weights)


def quadrature(rule: Rule, n_steps: int) -> NodesAndWeights:
    """Returns nodes and weights of a rule by name; `umnn` is Clenshaw-Curtis as UMNN's code has it."""
    if rule == "clenshaw_curtis":
        return clenshaw_curtis(n_steps)
    if rule == "umnn":
        return clenshaw_curtis(n_steps, last_halved=False)
    if rule == "gauss_legendre":
        return gauss_legendre(n_steps)
    raise UnknownName.among("rule", rule, get_args(Rule))


def _frozen(values: NDArray[np.float64]) -> NDArray[np.float64]:
    values.flags.writeable = False
    return values


def exact_integral(
    limits: Tensor,
    offsets: Tensor,
    slopes: Tensor,
    second_weights: Tensor,
    second_biases: Tensor,
    third_weights: Tensor,
    third_bias: Tensor,
    *,
    n_threads: int = 1,
) -> Tensor:
    """Integrates 1 + ELU of a two-layer ReLU network of the score from 0 to every limit, in closed form.

    The result `(b,)` is float64; everything else is taken as float32. Nothing but the inputs is kept for the
    backward pass, which walks every row again.

    Arguments:
        limits: Upper limits `(b,)`.
        offsets: First-layer offsets `(b, H1)`.
        slopes: First-layer slopes `(H1,)`.
        second_weights: `(H2, H1)`.
        second_biases: `(H2,)`.
        third_weights: `(H2,)`.
        third_bias: `()` or `(1,)`.
        n_threads: Threads over slices of rows.

    Example:
        >>> import torch
        >>> one = torch.ones(1)
        >>> limit = torch.tensor([2.0], requires_grad=True)
        >>> area = exact_integral(limit, torch.zeros(1, 1), one, one[:, None], one, one, -2 * one)
        >>> area.backward()
        >>> round(area.item(), 6), limit.grad.item()
        (2.132121, 2.0)
    """
    result: Tensor = _ExactIntegral.apply(
        limits, offsets, slopes, second_weights, second_biases, third_weights, third_bias, n_threads
    )
    return result


class _ExactIntegral(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        from monocal.lab.exact_concat.integral import exact_integral as integral

        *tensors, n_threads = arguments
        ctx.save_for_backward(*tensors)
        ctx.n_threads = n_threads
        return torch.from_numpy(integral(*_arrays(tensors), n_threads=n_threads))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        from monocal.lab.exact_concat.integral import exact_integral_backward

        tensors = ctx.saved_tensors
        gradients = exact_integral_backward(upstream[0].detach().numpy(), *_arrays(tensors), n_threads=ctx.n_threads)
        return *(_like(gradient, tensor) for gradient, tensor in zip(gradients, tensors, strict=True)), None


def _arrays(tensors: Sequence[Tensor]) -> Any:
    *arrays, third_bias = (tensor.detach().to(torch.float32).contiguous().numpy() for tensor in tensors)
    return *arrays, float(third_bias.reshape(()))


def _like(gradient: Any, tensor: Tensor) -> Tensor:
    return torch.as_tensor(gradient).to(tensor.dtype).reshape(tensor.shape)


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
        check_known("integral", integral, get_args(Integral))
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
            if limits.device.type == "cpu" and numba_is_installed():
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
        found: Tensor = positive(TORCH, self.third(second)[:, :, 0])
        return found


_NO_KERNEL = (
    "the exact integral needs numba and CPU tensors; using Clenshaw-Curtis here, which is approximate and not "
    'guaranteed to be monotone. Install monocal[neural], move the map to the CPU, or say integral="clenshaw_curtis".'
)


@final
class ConcatMap(MonotoneMap):
    r"""Unconstrained monotone calibration in logit space, as published.

    .. math:: f(t, x) = e^{w(x)} \left( \int_0^t h(v, x)\,dv + \beta \right) + b(x), \qquad h > 0

    h is a network of `[v; x]` with two hidden layers; w and b come from a second network of x. With `integral="exact"`
    the map never decreases in t for a fixed x: every piece of the integral is non-negative in floating point, and the
    rescaling multiplies by a positive number.

    References:
        Bai et al. Unconstrained monotonic calibration of predictions in deep ranking systems. SIGIR 2025.

    Arguments:
        context_width: Numbers per context row; 0 makes a map of the score alone.
        integral: `exact`, `clenshaw_curtis`, `gauss_legendre` or `umnn`.
        n_steps: Steps of a quadrature rule.
        rescaling: Without it w = b = 0 for every row.
        identity_start: Zeroes the layers behind h, w and b, so that the untrained map returns its input.
        hidden: Widths of the integrand network.
        rescaling_hidden: Widths of the network behind w and b.
        n_threads: Threads of the exact kernel in training.
        bias_scale: Standard deviation of the biases at the start (the authors use 1e-4).
        seed: Seed of the initial weights.

    Example:
        >>> import torch
        >>> umc = ConcatMap(4)
        >>> umc(torch.tensor([-2.0, 0.5]), torch.zeros(2, 4)).tolist()
        [-2.0, 0.5]
    """

    def __init__(
        self,
        context_width: int,
        *,
        integral: Integral = "exact",
        n_steps: int = 50,
        rescaling: bool = True,
        identity_start: bool = True,
        hidden: tuple[int, int] = (50, 50),
        rescaling_hidden: Sequence[int] = (200, 200),
        n_threads: int = 1,
        bias_scale: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__({}, self._values, context_width=context_width)
        generator = generator_of(seed)
        self.rescaling = rescaling
        self.beta = nn.Parameter(torch.zeros(()))
        self.integrand = ConcatIntegrand(
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
            start = torch.zeros(n_shape + 2 * rescaling)
            # spreads the kinks of the first layer over the score axis, which features do otherwise
            start[:n_shape] = torch.empty(n_shape).uniform_(-1.0, 1.0, generator=generator)
            self.constants = nn.Parameter(start)
            return
        self.offsets = linear(context_width, n_shape, generator, bias_scale)
        if rescaling:
            self.rescaler = Mlp(Network(context_width, rescaling_hidden, 2, identity_start, bias_scale), generator)

    def _values(self, _ops: Ops, logits: Tensor, context: Context) -> Tensor:
        offsets, scaling = self._offsets_and_scaling(context, logits.shape[0])
        area: Tensor = self.integrand(logits, offsets)
        beta = self.beta.to(torch.float64)
        if scaling is None:
            return area + beta
        scale = torch.exp(held_between(scaling[:, 0], -LOG_SCALE_LIMIT, LOG_SCALE_LIMIT).to(torch.float64))
        return scale * area + (scale * beta + scaling[:, 1].to(torch.float64))

    def _offsets_and_scaling(self, context: Context, n_rows: int) -> tuple[Tensor, Tensor | None]:
        """Returns the first layer's offsets, and w and b of every row."""
        if context is None:
            raw = self.constants.expand(n_rows, -1)
            return (raw[:, :-2], raw[:, -2:]) if self.rescaling else (raw, None)
        return affine(self.offsets, context), self.rescaler(context) if self.rescaling else None
