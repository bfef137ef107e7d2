"""Multilayer perceptrons, initialised from an explicit generator; large batches go through in blocks of rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.neural.context import FieldContext

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
        >>> from monocal.neural.context import generator_of
        >>> from monocal.neural.mlp import linear
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


def linear(n_in: int, n_out: int, generator: torch.Generator, bias_scale: float = 0.0) -> nn.Linear:
    r"""Builds one affine layer with Xavier-normal weights of gain :math:`\sqrt 2`.

    Arguments:
        n_in: Width of the input.
        n_out: Width of the output.
        generator: Where the random weights come from.
        bias_scale: Standard deviation of the biases; 0 starts them at zero.

    Example:
        >>> from monocal.neural.context import generator_of
        >>> layer = linear(3, 2, generator_of(0))
        >>> tuple(layer.weight.shape), layer.bias.tolist()
        ((2, 3), [0.0, 0.0])
    """
    layer = _Unfilled(n_in, n_out)
    if n_in > 0:
        nn.init.xavier_normal_(layer.weight, gain=math.sqrt(2.0), generator=generator)
    if bias_scale > 0.0:
        nn.init.trunc_normal_(layer.bias, std=bias_scale, a=-2 * bias_scale, b=2 * bias_scale, generator=generator)
    else:
        nn.init.zeros_(layer.bias)
    return layer


class _Unfilled(nn.Linear):
    """An affine layer that draws nothing by itself; `skip_init` of torch would load its symbolic algebra for that."""

    def reset_parameters(self) -> None:
        pass

    def _get_name(self) -> str:
        return "Linear"


@final
class Mlp(nn.Module):
    """Affine layers with ReLU in between and nothing after the last one.

    Arguments:
        n_in: Width of the input.
        hidden: Widths of the hidden layers.
        n_out: Width of the output.
        generator: Where the random weights come from.
        zero_last: Starts the last layer at zero, so that the output is 0 before training.
        bias_scale: Standard deviation of the biases; 0 starts them at zero.

    Example:
        >>> import torch
        >>> from monocal.neural.context import generator_of
        >>> net = Mlp(3, (8, 4), 2, generator_of(0), zero_last=True)
        >>> net(torch.ones(5, 3)).abs().sum().item()
        0.0
    """

    def __init__(
        self,
        n_in: int,
        hidden: Sequence[int],
        n_out: int,
        generator: torch.Generator,
        *,
        zero_last: bool = False,
        bias_scale: float = 0.0,
    ) -> None:
        super().__init__()
        if n_in < 1 or n_out < 1 or any(width < 1 for width in hidden):
            raise InvalidInput.of(
                "hidden", f"layers {[n_in, *hidden, n_out]}", "widths of at least 1", "drop the empty layer"
            )
        widths = [n_in, *hidden, n_out]
        self.layers = nn.ModuleList(
            linear(left, right, generator, bias_scale) for left, right in itertools.pairwise(widths)
        )
        if zero_last:
            zero_(self.last)

    @property
    def linears(self) -> list[nn.Linear]:
        """The layers, first to last."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]

    @property
    def last(self) -> nn.Linear:
        """The layer that makes the output."""
        return self.linears[-1]

    def forward(self, values: Tensor | FieldContext) -> Tensor:
        if len(values.shape) == 2 and runs_in_blocks(values):
            return blocked_mlp(values, self.linears)[1]
        values = values.joined() if isinstance(values, FieldContext) else values
        *hidden, last = self.linears
        for layer in hidden:
            values = torch.relu(layer(values))
        result: Tensor = last(values)
        return result


def zero_(layer: nn.Linear) -> None:
    """Sets an affine layer to the constant 0, in place."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
