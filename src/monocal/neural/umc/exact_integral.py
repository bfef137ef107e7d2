"""The exact integral of the kernels as a differentiable torch function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


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
        from monocal.compiled.exact_integral import exact_integral as integral

        *tensors, n_threads = arguments
        ctx.save_for_backward(*tensors)
        ctx.n_threads = n_threads
        return torch.from_numpy(integral(*_arrays(tensors), n_threads=n_threads))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        from monocal.compiled.exact_integral import exact_integral_backward

        tensors = ctx.saved_tensors
        gradients = exact_integral_backward(upstream[0].detach().numpy(), *_arrays(tensors), n_threads=ctx.n_threads)
        return *(_like(gradient, tensor) for gradient, tensor in zip(gradients, tensors, strict=True)), None


def _arrays(tensors: Sequence[Tensor]) -> Any:
    *arrays, third_bias = (tensor.detach().to(torch.float32).contiguous().numpy() for tensor in tensors)
    return *arrays, float(third_bias.reshape(()))


def _like(gradient: Any, tensor: Tensor) -> Tensor:
    return torch.as_tensor(gradient).to(tensor.dtype).reshape(tensor.shape)
