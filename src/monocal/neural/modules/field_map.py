"""A monotone map together with what turns field ids into its context: the whole network of a calibrator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from monocal.neural.modules.context_encoder import ContextEncoder
from monocal.neural.modules.field_context import FieldContext, rows_of_ids
from monocal.neural.modules.wide_shift import WideShift
from monocal.neural.torch_map import MonotoneMap
from monocal.training.trainable import BatchPenalty, Trainable

_FIRST_TEMPERATURE, _LAST_TEMPERATURE = 1.0, 0.1


@final
class ChosenValues(nn.Module):
    """Encodes ids of which only some have a vector of their own.

    Values are first looked up in `slots`, which says which row of the encoder's field a value has. Rare values
    share row 0 with unseen ones: too few rows stand behind them to learn a vector.

    Arguments:
        field_sizes: How many ids each field has.
        slots: For every id, field after field, its id in the encoder.
        encoder: Has one vector per slot.

    Example:
        Value 2 of the only field is rare and takes the place of the unseen value.

        >>> import torch
        >>> encoder = ContextEncoder([2], table=torch.tensor([[0.0], [7.0]]))
        >>> chosen = ChosenValues([3], torch.tensor([0, 1, 0]), encoder)
        >>> chosen(torch.tensor([[1], [2], [9]])).joined().tolist()
        [[7.0], [0.0], [0.0]]
    """

    sizes: Tensor
    offsets: Tensor
    slots: Tensor

    def __init__(self, field_sizes: Sequence[int], slots: Tensor, encoder: ContextEncoder) -> None:
        super().__init__()
        sizes = torch.as_tensor(list(field_sizes), dtype=torch.int64)
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("offsets", torch.cumsum(sizes, 0) - sizes, persistent=False)
        self.register_buffer("slots", slots.to(torch.int64), persistent=False)
        self.encoder = encoder

    @property
    def width(self) -> int:
        """Length of a context row."""
        return self.encoder.width

    def hide_(self, fields: Sequence[int]) -> None:
        """Makes all values of some fields count as unseen."""
        for field in fields:
            first = int(self.offsets[field])
            self.slots[first : first + int(self.sizes[field])] = 0

    def forward(self, field_ids: Tensor) -> FieldContext:
        rows = rows_of_ids(field_ids, self.sizes, self.offsets)
        return self.encoder.fields(self.slots[rows])


@final
class OneField(nn.Module):
    """Hands the ids of one field on as they are, for maps that look them up themselves.

    Arguments:
        field: The field's column.
    """

    def __init__(self, field: int) -> None:
        super().__init__()
        self.field = field

    def forward(self, field_ids: Tensor) -> Tensor:
        return field_ids[:, self.field : self.field + 1]


@final
class FieldMap(Trainable):
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
        return self.curve.penalty()

    def batch_penalty(self) -> BatchPenalty | None:
        return self.curve.batch_penalty()

    def set_progress(self, share: float) -> None:
        soften = getattr(self.curve, "set_temperature_", None)
        if soften is not None:
            soften(_FIRST_TEMPERATURE * (_LAST_TEMPERATURE / _FIRST_TEMPERATURE) ** share)
