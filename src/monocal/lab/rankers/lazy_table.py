"""A long table of which a batch touches few rows, and Adam on the touched rows alone."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


@final
class LazyTable(nn.Module):
    """Vectors by row number, trained without ever touching the rows that a batch does not name.

    A training step calls `touch`, builds its loss on `values` (each touched row once, whatever its number of
    occurrences), and lets `LazyAdam` write the changed rows back. All other rows keep their bits, and the step costs
    the time of the batch however long the table is.

    Arguments:
        rows: The starting point, `(rows, width)`.

    Example:
        >>> table = LazyTable(torch.arange(8.0).view(4, 2))
        >>> table.touch(torch.tensor([[3, 1], [1, 1]])).tolist()
        [[0, 1], [1, 1]]
        >>> table.touched.tolist(), table.values.tolist()
        ([3, 1], [[6.0, 7.0], [2.0, 3.0]])
    """

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows)
        self.touched = torch.empty(0, dtype=torch.int64)
        self.values = torch.empty(0, rows.shape[1])
        self._slots = np.empty(0, np.int32)

    def forward(self, places: Tensor) -> Tensor:
        """Looks up row numbers `(b, k)`; returns `(b, k, width)`."""
        return functional.embedding(places, self.rows)

    def touch(self, places: Tensor) -> Tensor:
        """Copies the rows that occur in `places` into `values` and returns `places` as rows of `values`.

        Distinct rows are found by marking them in a scratch array of the table's length, which is several times
        faster than sorting; they stand in the order of their last occurrence.
        """
        if len(self._slots) != len(self.rows):
            self._slots = np.empty(len(self.rows), np.int32)
        flat, slots = places.reshape(-1).numpy(), self._slots
        numbers = np.arange(flat.size, dtype=np.int32)
        slots[flat] = numbers
        distinct = flat[slots[flat] == numbers]
        slots[distinct] = numbers[: distinct.size]
        self.touched = torch.from_numpy(distinct)
        self.values = self.rows.detach()[self.touched].requires_grad_()
        return torch.from_numpy(slots[flat].astype(np.int64)).view(places.shape)


_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


@final
class LazyAdam:
    r"""Adam with moments and steps for the touched rows of a lazy table.

    .. math:: m \leftarrow \beta_1 m + (1-\beta_1) g, \quad v \leftarrow \beta_2 v + (1-\beta_2) g^2, \quad
        x \leftarrow x - \eta\,\frac{m / (1-\beta_1^t)}{\sqrt{v / (1-\beta_2^t)} + \epsilon}

    where t counts all steps of the training. When a batch touches every row this is torch's Adam. Like
    `monocal.neural.train.Adam` it is no subclass of torch's optimisers, which load torch's compiler.

    Arguments:
        table: The table.
    """

    def __init__(self, table: LazyTable) -> None:
        self.table, self.n_steps = table, 0
        self.means, self.squares = (torch.zeros_like(table.rows.detach()) for _ in range(2))

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Moves the touched rows against the gradient of `values` and writes them back."""
        self.n_steps += 1
        gradient, touched = self.table.values.grad, self.table.touched
        if gradient is None:
            return
        means = self.means[touched].lerp_(gradient, 1.0 - _BETA1)
        squares = self.squares[touched].mul_(_BETA2).addcmul_(gradient, gradient, value=1.0 - _BETA2)
        self.means.index_copy_(0, touched, means)
        self.squares.index_copy_(0, touched, squares)
        rate = learning_rate / (1.0 - _BETA1**self.n_steps)
        correction = (1.0 - _BETA2**self.n_steps) ** 0.5
        self.table.values.addcdiv_(means, squares.sqrt_().div_(correction).add_(_EPSILON), value=-rate)
        self.table.rows.index_copy_(0, touched, self.table.values)
