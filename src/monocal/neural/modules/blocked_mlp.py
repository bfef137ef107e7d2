"""A multilayer perceptron taken through a large batch in blocks of rows that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from monocal.neural.modules.field_context import FieldContext

BLOCK_ROWS = 512
"""Rows per block: large enough for full speed of a matrix product, small enough to keep activations in the cache."""


def runs_in_blocks(context: Tensor | FieldContext) -> bool:
    """Says whether a batch gains from blocks: on the CPU, in float32, several blocks long, not being traced."""
    values = context.table if isinstance(context, FieldContext) else context
    return (
        values.device.type == "cpu"
        and values.dtype == torch.float32
        and context.shape[0] >= 2 * BLOCK_ROWS
        and not torch.compiler.is_compiling()
    )


def blocked_mlp(
    context: Tensor | FieldContext, layers: Sequence[nn.Linear], skip: nn.Linear | None = None
) -> tuple[Tensor, Tensor]:
    """Returns what `skip` and what the ReLU network `layers` make of the same input, `(b, s)` and `(b, out)`.

    Equal to applying them one after the other, up to the order of summation. The first layers of both are one
    product, and a block goes through all later layers, forth and back, while it is in the cache.

    Example:
        >>> import torch
        >>> from monocal.neural.modules.mlp import generator_of, linear
        >>> layers = [linear(3, 4, generator_of(0)), linear(4, 2, generator_of(1))]
        >>> x = torch.linspace(-1, 1, 3 * 2000).reshape(2000, 3)
        >>> nothing, result = blocked_mlp(x, layers)
        >>> bool(torch.allclose(result, layers[1](torch.relu(layers[0](x))), atol=1e-6)), nothing.shape
        (True, torch.Size([2000, 0]))
    """
    n_skip = 0 if skip is None else skip.out_features
    joint = [part for part in (skip, *layers[:1]) if part is not None]
    weights, biases = torch.cat([part.weight for part in joint]), torch.cat([part.bias for part in joint])
    if isinstance(context, FieldContext):
        first = context.linear(weights, biases)
    else:
        first = _BlockedLinear.apply(context, weights, biases)
    if len(layers) < 2:
        return first[:, :n_skip], first[:, n_skip:]
    later = [parameter for layer in layers[1:] for parameter in (layer.weight, layer.bias)]
    skipped, result = _BlockedTail.apply(first, n_skip, *later)
    return skipped, result


def _blocks(n_rows: int) -> list[slice]:
    return [slice(start, start + BLOCK_ROWS) for start in range(0, n_rows, BLOCK_ROWS)]


class _BlockedLinear(torch.autograd.Function):
    """An affine layer whose matrix products stay small enough for the cache."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
        result = values.new_empty(values.shape[0], weights.shape[0])
        for block in _blocks(values.shape[0]):
            torch.addmm(biases, values[block], weights.t(), out=result[block])
        ctx.save_for_backward(values, weights)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, pull: Tensor) -> Any:
        values, weights = ctx.saved_tensors
        d_values = torch.empty_like(values) if ctx.needs_input_grad[0] else None
        d_weights = torch.zeros_like(weights)
        for block in _blocks(values.shape[0]):
            d_weights.addmm_(pull[block].t(), values[block])
            if d_values is not None:
                torch.mm(pull[block], weights, out=d_values[block])
        return d_values, d_weights, pull.sum(dim=0)


class _BlockedTail(torch.autograd.Function):
    """Everything after the first affine layer; its first `n_skip` columns pass unchanged."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, n_skip: int, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        weights, biases = parameters[0::2], parameters[1::2]
        outputs = [first.new_empty(first.shape[0], weight.shape[0]) for weight in weights]
        for block in _blocks(first.shape[0]):
            inputs = torch.relu(first[block, n_skip:])
            for weight, bias, output in zip(weights, biases, outputs, strict=True):
                target = output[block]
                torch.addmm(bias, inputs, weight.t(), out=target)
                inputs = target if output is outputs[-1] else target.relu_()
        ctx.save_for_backward(first, *weights, *outputs[:-1])
        ctx.n_skip = n_skip
        return first[:, :n_skip].clone(), outputs[-1]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_skipped: Tensor, d_result: Tensor) -> Any:
        first, *saved = ctx.saved_tensors
        n_layers, n_skip = (len(saved) + 1) // 2, ctx.n_skip
        weights, activations = saved[:n_layers], saved[n_layers:]
        d_first = torch.empty_like(first)
        d_weights = [torch.zeros_like(weight) for weight in weights]
        d_biases = [weight.new_zeros(weight.shape[0]) for weight in weights]
        for block in _blocks(first.shape[0]):
            rectified = [torch.relu(first[block, n_skip:]), *(activation[block] for activation in activations)]
            pull = d_result[block]
            for i in range(n_layers - 1, -1, -1):
                d_weights[i].addmm_(pull.t(), rectified[i])
                d_biases[i] += pull.sum(dim=0)
                pull = torch.ops.aten.threshold_backward(pull @ weights[i], rectified[i], 0)
            d_first[block, n_skip:] = pull
            d_first[block, :n_skip] = d_skipped[block]
        gradients = [part for pair in zip(d_weights, d_biases, strict=True) for part in pair]
        return d_first, None, *gradients
