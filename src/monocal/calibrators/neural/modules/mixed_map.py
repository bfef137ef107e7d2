"""A map as it is served: believed to a share, with shifts and a level beside it."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from monocal.calibrators.neural.modules.monotone_map import MonotoneMap
from monocal.calibrators.neural.modules.wide_shift import WideShift
from monocal.training.trainable import Trainable


@final
class MixedMap(Trainable):
    r"""Mixes a curve with the straight line that it started from: :math:`(1 - a) t + a f(t, x) + \text{shifts} + c`.

    Arguments:
        curve: The monotone map f.
        share: How far it is believed, a.
        constant: c.
        encoder: Makes the curve's context from field ids; None for a curve of the score alone.
        wide: Shifts per field value; None for none.

    Example:
        >>> import torch
        >>> from monocal.calibrators.neural.umc.torch_map import UmcMap
        >>> network = MixedMap(UmcMap(0, integrand="knots", knots=[-1.0, 1.0]), 0.5, 0.25)
        >>> network(torch.tensor([-2.0, 3.0])).tolist()
        [-1.75, 3.25]
    """

    def __init__(
        self,
        curve: MonotoneMap,
        share: float,
        constant: float,
        *,
        encoder: nn.Module | None = None,
        wide: WideShift | None = None,
    ) -> None:
        super().__init__()
        self.curve, self.encoder, self.wide = curve, encoder, wide
        self.share, self.constant = share, constant

    def forward(self, logits: Tensor, field_ids: Tensor | None = None) -> Tensor:
        context = None if self.encoder is None else self.encoder(field_ids)
        values: Tensor = (1.0 - self.share) * logits + self.share * self.curve(logits, context) + self.constant
        return values if self.wide is None else values + self.wide(field_ids).to(values.dtype)

    def penalty(self) -> Tensor:
        return self.curve.penalty()
