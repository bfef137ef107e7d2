"""Maps on torch tensors: what training differentiates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn


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


@final
class TorchOps:
    """The operations on tensors; see `Ops` for what each of them means. Field ids come as a context already.

    Arguments:
        module: Has the learned arrays as parameters and buffers, and the networks as sub-modules.
    """

    exp: Any = torch.exp
    log1p: Any = torch.log1p
    sigmoid: Any = torch.sigmoid

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    # Learned arrays

    def learned(self, name: str) -> Tensor:
        found: Tensor = getattr(self._module, name)
        return found

    def has(self, name: str) -> bool:
        return hasattr(self._module, name)

    def n_inputs(self, network: str) -> int:
        return int(getattr(self._module, network).layers[0].in_features)

    def dense(self, network: str, rows: Any) -> Tensor:
        result: Tensor = getattr(self._module, network)(rows)
        return result

    # Precision and constants

    def double(self, values: Any) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float64)

    def rows(self, numbers: Any, like: Tensor) -> Tensor:
        values = numbers if isinstance(numbers, Tensor) else self.double(numbers)
        return values.expand(like.shape[0], -1)

    # Numbers

    def power(self, values: Tensor, exponents: Tensor) -> Tensor:
        return values**exponents

    def logit(self, probabilities: Tensor, floor: float) -> Tensor:
        return torch.logit(held_between(probabilities, floor, 1.0 - floor))

    def minimum(self, values: Tensor, bound: Tensor | float) -> Tensor:
        return torch.where(values > bound, bound, values)

    def maximum(self, values: Tensor, bound: Tensor | float) -> Tensor:
        return torch.where(values < bound, bound, values)

    def clip(self, values: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
        return held_between(values, low, high)

    def where(self, condition: Any, then: Any, otherwise: Any) -> Tensor:
        return torch.where(torch.as_tensor(condition), then, otherwise)

    # Rows and columns

    def column(self, matrix: Tensor, place: int) -> Tensor:
        return matrix[:, place]

    def columns(self, matrix: Tensor, start: int, end: int) -> Tensor:
        return matrix[:, start:end]

    def upright(self, values: Tensor) -> Tensor:
        return values[:, None]

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts), dim=1)

    def pick(self, matrix: Tensor, places: Tensor) -> Tensor:
        return matrix.gather(1, places[:, None])[:, 0]

    def sum(self, matrix: Tensor) -> Tensor:
        return matrix.sum(dim=1)

    def running_sum(self, matrix: Tensor, *, from_end: bool = False) -> Tensor:
        return torch.cumsum(matrix.flip(1), dim=1).flip(1) if from_end else torch.cumsum(matrix, dim=1)

    def running_max(self, numbers: Tensor) -> Tensor:
        return torch.cummax(numbers, dim=0).values

    def softmax(self, values: Tensor) -> Tensor:
        return torch.softmax(values, dim=-1)

    def softmax_sums(self, matrix: Tensor) -> Tensor:
        return torch.cumsum(torch.softmax(matrix, dim=1), dim=1)

    # Tables

    def look_up(self, table: Tensor, places: Tensor) -> Tensor:
        return table[places]

    def segment(self, values: Tensor, knots: Tensor) -> Tensor:
        found = torch.searchsorted(knots, values.detach().contiguous(), right=True) - 1
        return found.clamp(0, knots.shape[0] - 2)

    def bin_of(self, values: Tensor, n_bins: int) -> tuple[Tensor, Tensor]:
        whole = values.detach().floor().clamp(0, n_bins - 1)
        return whole, whole.to(torch.int64)

    # Matrices of fields

    def vectors(self, context: Any) -> Tensor:
        result: Tensor = context if isinstance(context, Tensor) else context.joined()
        return result

    def matrices(self, rows: Tensor, n_rows: int, n_columns: int) -> Tensor:
        return rows.reshape(-1, n_rows, n_columns)

    def turned(self, matrices: Tensor) -> Tensor:
        return matrices.transpose(1, 2)

    def matrix_of(self, matrices: Tensor, place: int) -> Tensor:
        return matrices[:, place]

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        return left @ right

    def weighted_sum(self, weights: Tensor, parts: Sequence[Tensor]) -> Tensor:
        return (weights[:, :, None] * torch.stack(list(parts), dim=1)).sum(dim=1)
