"""A map as a torch module: its learned parts, and the one function that they are for, on tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.core.monotonicity import MonotoneCheck
from monocal.core.monotonicity import assert_monotone as assert_predict_monotone
from monocal.core.spaces import Floats
from monocal.neural.maps import Curve, Drawn, Fixed, Network, Numbers, Parts
from monocal.neural.modules.field_context import FieldContext
from monocal.neural.modules.mlp import Mlp, generator_of
from monocal.ops.numpy_ops import NumpyOps
from monocal.ops.torch_ops import TorchOps
from monocal.training.trainable import BatchPenalty

Context = Tensor | FieldContext | None
"""What a map conditions on: joined vectors, the same vectors still as ids, or nothing."""


class MonotoneMap(nn.Module):
    """Maps logits to calibrated logits, differently for every context row.

    The computation runs in whatever precision the map needs; the result has the dtype of `logits`.

    Arguments:
        parts: What it learns; see `monocal.neural.maps`.
        curve: What it does with that.
        context_width: How many numbers a context row has; 0 for a map that ignores it.
        seed: Of the random starts.

    Example:
        >>> import torch
        >>> from monocal.neural.maps import umc, umc_parts
        >>> untrained = MonotoneMap(umc_parts(4, [-1.0, 0.0, 1.0], (8,)), umc, context_width=4)
        >>> untrained(torch.tensor([-2.0, 0.5]), torch.zeros(2, 4)).tolist()
        [-2.0, 0.5]
    """

    def __init__(self, parts: Parts, curve: Curve, *, context_width: int = 0, seed: int = 0) -> None:
        super().__init__()
        self.context_width = context_width
        self._curve = curve
        self._in_order: list[str] = []
        generator = generator_of(seed)
        for name, part in parts.items():
            self._add(name, part, generator)

    def _add(self, name: str, part: Any, generator: torch.Generator) -> None:
        if isinstance(part, Network):
            network = Mlp(
                part.n_in,
                part.hidden,
                part.n_out,
                generator,
                zero_last=part.starts_at_zero,
                bias_scale=part.bias_scale,
            )
            self.add_module(name, network)
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
    def forward(self, logits: Tensor, context: Context = None) -> Tensor:
        """Returns calibrated logits `(b,)` for logits `(b,)` and a context `(b, context_width)`."""
        self._check(logits, context)
        return self._values(logits.to(torch.float64), context if self.context_width else None).to(logits.dtype)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns everything learned by name, as arrays with at least one dimension."""
        return {name: np.atleast_1d(value.numpy()) for name, value in self.state_dict().items()}

    def penalty(self) -> Tensor:
        """Returns the map's own term of the training loss: how far numbers are out of order that should not be."""
        found = [disorder(self.get_parameter(name)) for name in self._in_order]
        return sum(found[1:], start=found[0]) if found else next(self.parameters()).new_zeros(())

    def batch_penalty(self) -> BatchPenalty | None:
        """Returns what the penalty is made of if it is no mean over rows; see `Trainable`."""
        return None

    def _values(self, logits: Tensor, context: Context) -> Tensor:
        """Returns calibrated logits for float64 ones."""
        result: Tensor = self._curve(TorchOps(self), logits, context)
        return result

    def _check(self, logits: Tensor, context: Context) -> None:
        if logits.ndim != 1:
            raise InvalidInput.of(
                "logits", f"a tensor of shape {tuple(logits.shape)}", "one logit per row", "flatten it first"
            )
        if self.context_width == 0:
            return
        if context is None:
            raise InvalidInput.of(
                "context",
                None,
                f"a tensor of shape (rows, {self.context_width})",
                "encode the fields first, or build the map with context_width=0",
            )
        if tuple(context.shape) != (logits.shape[0], self.context_width):
            raise InvalidInput.of(
                "context",
                f"a tensor of shape {tuple(context.shape)}",
                f"shape {(logits.shape[0], self.context_width)}",
                "use the encoder the map was built for",
            )


def disorder(values: Tensor) -> Tensor:
    r"""Returns :math:`\sum \max(0, b_k - b_{k+1})` along the last dimension, summed over the others.

    Example:
        >>> import torch
        >>> round(disorder(torch.tensor([0.2, 0.15, 0.6])).item(), 6)
        0.05
    """
    return torch.relu(values[..., :-1] - values[..., 1:]).sum()


def assert_monotone(
    curve: Curve,
    arrays: Mapping[str, NDArray[Any]],
    context: NDArray[np.float32] | None = None,
    *,
    logits: ArrayLike | None = None,
    tolerance: float = 0.0,
) -> MonotoneCheck:
    """Sweeps the logit through every context row's curve, as it predicts, and raises `NotMonotone` if it ever falls.

    Arguments:
        curve: A map.
        arrays: What it learned, for example `MonotoneMap.arrays()`.
        context: Context rows `(c, d)`; None for a map without context.
        logits: Increasing logits; a grid with chains of neighbouring float32 numbers if not given.
        tolerance: A fall up to this size is forgiven.

    Example:
        >>> from monocal.neural.maps import umc, umc_parts
        >>> made = MonotoneMap(umc_parts(3, [-1.0, 1.0], (8,), identity_start=False), umc, context_width=3)
        >>> assert_monotone(umc, made.arrays(), np.eye(3, dtype=np.float32)).worst_fall
        0.0
    """
    ops = NumpyOps(arrays)

    def swept(sweep: Floats, rows: Any) -> Floats:
        result: Floats = curve(ops, sweep, rows)
        return result

    return assert_predict_monotone(swept, context, logits=logits, tolerance=tolerance)
