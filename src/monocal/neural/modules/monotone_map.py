"""The one interface of every map from a ranker's logit to a calibrated logit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, final

import torch
from torch import Tensor, nn

from monocal.core.errors import InvalidInput
from monocal.neural.modules.field_context import FieldContext
from monocal.training.trainable import BatchPenalty

Monotone = Literal["strict", "weak", "none"]
Condition = tuple[Tensor, ...]
Context = Tensor | FieldContext | None
"""What a map conditions on: joined vectors, the same vectors still as ids, or nothing."""


def held_between(values: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    """Clamps, with the gradient of the inside at both bounds; releases of torch differ there in that of `clamp`.

    Example:
        >>> import torch
        >>> values = torch.tensor([-2.0, 0.0, 1.0, 3.0], requires_grad=True)
        >>> held = held_between(values, 0.0, 1.0)
        >>> held.sum().backward()
        >>> held.tolist(), values.grad.tolist()
        ([0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0])
    """
    return torch.where(values < low, low, torch.where(values > high, high, values))


class MonotoneMap(nn.Module, ABC):
    """Maps logits to calibrated logits, differently for every context row.

    A map is written as two steps. `_condition` turns a context row into the parameters of a curve and never
    sees a score; `_evaluate` evaluates the curve of each row at its logit. Separating them makes the guarantee
    checkable: for a fixed context the parameters are fixed numbers, so only `_evaluate` has to be monotone.

    The computation runs in whatever precision the map needs; the result has the dtype of `logits`.

    Attributes:
        context_width: How many numbers a context row has; 0 for a map that ignores it.
        monotone: What the map guarantees in the logit for a fixed context row: `strict`, `weak` (ties may
            occur, decreases cannot) or `none`.
    """

    def __init__(self, context_width: int, monotone: Monotone) -> None:
        super().__init__()
        self.context_width = context_width
        self.monotone: Monotone = monotone

    @final  # type: ignore[misc]  # torch declares forward as a plain attribute
    def forward(self, logits: Tensor, context: Context = None) -> Tensor:
        """Returns calibrated logits `(b,)` for logits `(b,)` and a context `(b, context_width)`."""
        self._check(logits, context)
        condition = self._condition(context if self.context_width else None, logits.shape[0])
        return self._evaluate(logits, condition).to(logits.dtype)

    @final
    def curves(self, logits: Tensor, context: Context = None) -> Tensor:
        """Evaluates every context row's curve on the same grid: `(g,)` and `(c, d)` give `(c, g)`.

        The curve's parameters are computed once per context row, so two points of one curve differ only
        through their logit. Without a context there is one curve.
        """
        n_curves = 1 if context is None else context.shape[0]
        self._check(logits.new_zeros(n_curves), context)
        condition = self._condition(context if self.context_width else None, n_curves)
        n_points = logits.shape[0]
        spread = tuple(part.repeat_interleave(n_points, dim=0) for part in condition)
        values = self._evaluate(logits.repeat(n_curves), spread)
        return values.to(logits.dtype).reshape(n_curves, n_points)

    @final
    def penalty(self) -> Tensor:
        """Returns the map's own term of the training loss: 0 unless the map needs a soft constraint."""
        return self._penalty()

    @final
    def batch_penalty(self) -> BatchPenalty | None:
        """Returns what the penalty is made of if it is no mean over rows; see `Trainable`."""
        return self._batch_penalty()

    @abstractmethod
    def _condition(self, context: Context, n_rows: int) -> Condition:
        """Returns the per-row parameters of the curves, each with `n_rows` rows; independent of the logits."""

    @abstractmethod
    def _evaluate(self, logits: Tensor, condition: Condition) -> Tensor:
        """Evaluates row i's curve at `logits[i]`."""

    def _penalty(self) -> Tensor:
        return next(self.parameters()).new_zeros(())

    def _batch_penalty(self) -> BatchPenalty | None:
        return None

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
