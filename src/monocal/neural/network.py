"""A map as a torch module: what it learns, what makes its context from field ids, and the shifts beside it."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats
from monocal.neural.context import FieldContext, affine, generator_of, rows_of_ids
from monocal.neural.maps import Curve, Drawn, Fixed, Network, Numbers, Parts
from monocal.ops.operations import Ops
from monocal.ops.torch_ops import TorchOps

Context = Tensor | FieldContext | None
"""What a map conditions on: joined vectors, the same vectors still as rows of a table, or nothing."""


class MonotoneMap(nn.Module):
    """Maps logits and field ids to calibrated logits: a curve chosen by the context, plus one shift per value.

    For a fixed feature row context and shifts are constants, so the whole is as monotone as the curve. The computation
    runs in whatever precision the map needs; the result has the dtype of `logits`.

    Arguments:
        parts: What it learns; see `monocal.neural.maps`.
        curve: What it does with that.
        context_width: How many numbers a context row has; 0 for a map that ignores it.
        seed: Of the random starts.

    Attributes:
        encoder: Makes the context from field ids; without one the map is given context rows in place of ids.
        wide: Shifts per field value; None for none.

    Example:
        >>> import torch
        >>> from monocal.neural.maps import umc, umc_parts
        >>> untrained = MonotoneMap(umc_parts(4, np.array([-1.0, 0.0, 1.0]), (8,)), umc, context_width=4)
        >>> untrained(torch.tensor([-2.0, 0.5]), torch.zeros(2, 4)).tolist()
        [-2.0, 0.5]
        >>> alone = MonotoneMap(umc_parts(0, np.array([-1.0, 1.0]), ()), umc)
        >>> alone.wide = WideShift([3], np.array([0.0, 0.5, -1.0]))
        >>> alone(torch.tensor([-2.0, -2.0]), torch.tensor([[1], [2]])).tolist()
        [-1.5, -3.0]
    """

    def __init__(self, parts: Parts, curve: Curve, *, context_width: int = 0, seed: int = 0) -> None:
        super().__init__()
        self.context_width = context_width
        self.encoder: nn.Module | None = None
        self.wide: WideShift | None = None
        self._curve = curve
        self._in_order: list[str] = []
        generator = generator_of(seed)
        for name, part in parts.items():
            self._add(name, part, generator)

    def _add(self, name: str, part: Any, generator: torch.Generator) -> None:
        if isinstance(part, Network):
            self.add_module(name, Mlp(part, generator))
        elif isinstance(part, Fixed):
            self.register_buffer(name, torch.as_tensor(part.values, dtype=torch.float64).clone())
        elif isinstance(part, Drawn):
            drawn = torch.empty(part.shape)
            nn.init.normal_(drawn, std=part.scale, generator=generator)
            self.register_parameter(name, nn.Parameter(drawn))
        elif isinstance(part, Numbers):
            self.register_parameter(name, nn.Parameter(torch.as_tensor(part.start, dtype=torch.float32).clone()))
            self._in_order += [name] * part.in_order

    @final  # type: ignore[misc]  # torch declares forward as a plain attribute
    def forward(self, logits: Tensor, field_ids: Any = None) -> Tensor:
        """Returns calibrated logits `(b,)` for logits `(b,)` and ids `(b, F)`, or context rows `(b, context_width)`."""
        context = field_ids if self.encoder is None else self.encoder(field_ids)
        values = self._curve(
            cast("Ops", TorchOps(self)), logits.to(torch.float64), context if self.context_width else None
        )
        values = values.to(logits.dtype)
        return values if self.wide is None else values + self.wide(field_ids).to(values.dtype)  # type: ignore[no-any-return]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns everything the map itself learned by name, as arrays with at least one dimension."""
        own = {name: value for name, value in self.state_dict().items() if not name.startswith(("encoder.", "wide."))}
        return {name: np.atleast_1d(value.numpy()) for name, value in own.items()}

    def penalty(self) -> Tensor:
        """Returns the map's own term of the training loss: how far numbers are out of order that should not be."""
        found = [disorder(self.get_parameter(name)) for name in self._in_order]
        return sum(found[1:], start=found[0]) if found else next(self.parameters()).new_zeros(())

    def set_progress(self, share: float) -> None:
        """Takes the share of the training that is done, for choices that harden over time."""


def disorder(values: Tensor) -> Tensor:
    r"""Returns :math:`\sum \max(0, b_k - b_{k+1})` along the last dimension, summed over the others.

    Example:
        >>> import torch
        >>> round(disorder(torch.tensor([0.2, 0.15, 0.6])).item(), 6)
        0.05
    """
    return torch.relu(values[..., :-1] - values[..., 1:]).sum()


@final
class WideShift(nn.Module):
    r"""Sums one fixed scalar per field value: :math:`\sum_f v_f[x_f]`, a shift that does not depend on the score.

    Arguments:
        field_sizes: How many ids each field has, id 0 (unseen) included.
        shifts: One per id, field after field.

    Example:
        >>> import torch
        >>> wide = WideShift([3, 2], np.array([0.0, 0.5, -1.0, 0.0, 0.25]))
        >>> wide(torch.tensor([[1, 1], [2, 0], [0, 9]])).tolist()
        [0.75, -1.0, 0.0]
    """

    sizes: Tensor
    offsets: Tensor
    shifts: Tensor

    def __init__(self, field_sizes: list[int], shifts: Floats) -> None:
        super().__init__()
        sizes = torch.as_tensor(field_sizes, dtype=torch.int64)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("offsets", torch.cumsum(sizes, 0) - sizes, persistent=False)
        self.register_buffer("shifts", torch.as_tensor(shifts, dtype=torch.float32)[:, None], persistent=False)

    def forward(self, field_ids: Tensor) -> Tensor:
        rows = rows_of_ids(field_ids, self.sizes, self.offsets)
        return functional.embedding(rows, self.shifts).sum(dim=(1, 2))


# Layers


@final
class Mlp(nn.Module):
    """Affine layers with ReLU in between and nothing after the last one.

    Arguments:
        shape: Widths and start.
        generator: Where the random weights come from.

    Example:
        >>> import torch
        >>> net = Mlp(Network(3, (8, 4), 2, starts_at_zero=True), generator_of(0))
        >>> net(torch.ones(5, 3)).abs().sum().item()
        0.0
    """

    def __init__(self, shape: Network, generator: torch.Generator) -> None:
        super().__init__()
        widths = [shape.n_in, *shape.hidden, shape.n_out]
        if min(widths) < 1:
            raise InvalidInput.of("hidden", f"layers {widths}", "widths of at least 1", "drop the empty layer")
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList(linear(left, right, generator, shape.bias_scale) for left, right in pairs)
        if shape.starts_at_zero:
            zero_(self.last)

    @property
    def last(self) -> nn.Linear:
        """The layer that makes the output."""
        found = self.layers[-1]
        assert isinstance(found, nn.Linear)
        return found

    def forward(self, values: Tensor | FieldContext) -> Tensor:
        first, *later = self.layers
        assert isinstance(first, nn.Linear)
        result = affine(first, values)
        for layer in later:
            result = layer(torch.relu(result))
        return result


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


def zero_(layer: nn.Linear) -> None:
    """Sets an affine layer to the constant 0, in place."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
