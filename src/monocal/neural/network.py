"""A map as a torch module, and the whole network of a calibrator: the map, what makes its context, shifts beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from monocal.core.errors import InvalidInput
from monocal.core.monotonicity import MonotoneCheck
from monocal.core.monotonicity import assert_monotone as assert_predict_monotone
from monocal.core.scores import Floats
from monocal.neural.context import FieldContext, check_field_ids, field_offsets, generator_of, rows_of_ids
from monocal.neural.maps import Curve, Drawn, Fixed, Network, Numbers, Parts
from monocal.neural.mlp import Mlp
from monocal.ops.numpy_ops import NumpyOps
from monocal.ops.torch_ops import TorchOps

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


@final
class WideShift(nn.Module):
    r"""Sums one scalar per field value: :math:`\sum_f v_f[x_f]`, a logit shift that does not depend on the score.

    Added to a monotone map it keeps the map monotone, because for a fixed row it is a constant.
    Every shift starts at 0, so a fresh module changes nothing.

    Arguments:
        field_sizes: How many ids each field has, id 0 (unseen) included.
        sparse: Makes gradients sparse, for optimisers that support it.

    Example:
        >>> import torch
        >>> wide = WideShift([3, 2])
        >>> wide.set_([[0.0, 0.5, -1.0], [0.0, 0.25]])
        >>> wide(torch.tensor([[1, 1], [2, 0], [0, 0]])).tolist()
        [0.75, -1.0, 0.0]
    """

    field_sizes: Tensor
    offsets: Tensor

    def __init__(self, field_sizes: Sequence[int], *, sparse: bool = False) -> None:
        super().__init__()
        self.register_buffer("field_sizes", torch.as_tensor(list(field_sizes), dtype=torch.int64), persistent=False)
        self.register_buffer("offsets", field_offsets(field_sizes), persistent=False)
        self.sparse = sparse
        self.shifts = nn.Parameter(torch.zeros(int(sum(field_sizes)), 1))

    @classmethod
    def frozen(cls, field_sizes: Sequence[int], shifts: Floats | None) -> Self | None:
        """Returns shifts that stay while a map beside them is trained; None if there are none.

        Arguments:
            field_sizes: How many ids each field has.
            shifts: One per id, field after field.
        """
        if shifts is None:
            return None
        wide = cls(field_sizes)
        ends = np.cumsum(field_sizes)[:-1]
        wide.set_([part.tolist() for part in np.split(shifts, ends)])
        wide.requires_grad_(False)
        return wide

    def forward(self, field_ids: Tensor) -> Tensor:
        check_field_ids(field_ids, self.field_sizes)
        rows = rows_of_ids(field_ids, self.field_sizes, self.offsets)
        return functional.embedding(rows, self.shifts, sparse=self.sparse).sum(dim=(1, 2))

    @torch.no_grad()
    def set_(self, shifts: Sequence[Sequence[float]]) -> None:
        """Starts from given shifts, one list per field (for example those of a fitted logistic regression)."""
        values = torch.cat([torch.as_tensor(list(field), dtype=torch.float32) for field in shifts])
        self.shifts.copy_(values.reshape(-1, 1))


_FIRST_TEMPERATURE, _LAST_TEMPERATURE = 1.0, 0.1


@final
class FieldMap(nn.Module):
    """Maps logits and field ids to calibrated logits: a curve chosen by the context, plus one shift per value.

    For a fixed feature row the context and the shift are constants, so the whole is as monotone as the curve.

    Arguments:
        curve: The monotone map.
        encoder: Makes the curve's context from field ids; None for a curve of the score alone.
        wide: Shifts per field value; None for none.

    Example:
        >>> import torch
        >>> from monocal.neural.maps import umc, umc_parts
        >>> wide = WideShift([3])
        >>> wide.set_([[0.0, 0.5, -1.0]])
        >>> network = FieldMap(MonotoneMap(umc_parts(0, [-1.0, 1.0], ()), umc), wide=wide)
        >>> network(torch.tensor([-2.0, -2.0]), torch.tensor([[1], [2]])).tolist()
        [-1.5, -3.0]
    """

    def __init__(self, curve: MonotoneMap, *, encoder: nn.Module | None = None, wide: WideShift | None = None) -> None:
        super().__init__()
        self.curve = curve
        self.encoder = encoder
        self.wide = wide

    def forward(self, logits: Tensor, field_ids: Tensor | None = None) -> Tensor:
        context = None if self.encoder is None else self.encoder(field_ids)
        values: Tensor = self.curve(logits, context)
        return values if self.wide is None else values + self.wide(field_ids).to(values.dtype)

    def penalty(self) -> Tensor:
        """Returns the map's own term of the training loss."""
        return self.curve.penalty()

    def set_progress(self, share: float) -> None:
        """Hardens soft choices of the map as the training goes on."""
        soften = getattr(self.curve, "set_temperature_", None)
        if soften is not None:
            soften(_FIRST_TEMPERATURE * (_LAST_TEMPERATURE / _FIRST_TEMPERATURE) ** share)
