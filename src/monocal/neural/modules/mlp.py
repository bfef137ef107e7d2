"""Plain multilayer perceptrons, initialised from an explicit generator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.neural.modules.blocked_mlp import blocked_mlp, runs_in_blocks
from monocal.neural.modules.field_context import FieldContext, joined


def generator_of(seed: int) -> torch.Generator:
    """Returns a fresh generator, so that building a module never touches torch's global one.

    Example:
        >>> import torch
        >>> before = torch.random.get_rng_state()
        >>> layer = linear(3, 2, generator_of(0))
        >>> bool((torch.random.get_rng_state() == before).all())
        True
    """
    return torch.Generator().manual_seed(seed)


def linear(n_in: int, n_out: int, generator: torch.Generator, bias_scale: float = 0.0) -> nn.Linear:
    r"""Builds one affine layer with Xavier-normal weights of gain :math:`\sqrt 2`.

    Arguments:
        n_in: Width of the input.
        n_out: Width of the output.
        generator: Where the random weights come from.
        bias_scale: Standard deviation of the biases; 0 starts them at zero.

    Example:
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
        values = joined(values)
        for layer in self.linears[:-1]:
            values = torch.relu(layer(values))
        result: Tensor = self.last(values)
        return result


def zero_(layer: nn.Linear) -> None:
    """Sets an affine layer to the constant 0, in place."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
