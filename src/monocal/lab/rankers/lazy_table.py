"""A long table of which a batch touches few rows, and Adam on the touched rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

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

    def optimiser(self) -> LazyAdam:
        """Returns Adam for the touched rows."""
        return LazyAdam([self])

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


@final
class LazyAdam:
    r"""Adam with moments and steps for the touched rows of lazy tables.

    .. math:: m \leftarrow \beta_1 m + (1-\beta_1) g, \quad v \leftarrow \beta_2 v + (1-\beta_2) g^2, \quad
        x \leftarrow x - \eta\,\frac{m / (1-\beta_1^t)}{\sqrt{v / (1-\beta_2^t)} + \epsilon}

    where t counts all steps of the training. When a batch touches every row this is torch's Adam. Like
    `monocal.neural.train.Adam` it is no subclass of torch's optimisers, which load torch's compiler.

    Arguments:
        tables: The tables.
        lr: The rate η.
        betas: The decays β.
        eps: ε.
    """

    def __init__(
        self,
        tables: Sequence[LazyTable],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.tables = list(tables)
        self.param_groups: list[dict[str, Any]] = [{"lr": lr, "betas": betas, "eps": eps}]
        self.state: dict[int, dict[str, Any]] = {
            place: {"step": 0} | {name: torch.zeros_like(table.rows.detach()) for name in ("moments1", "moments2")}
            for place, table in enumerate(tables)
        }

    @torch.no_grad()
    def step(self) -> None:
        """Moves the touched rows against the gradient of `values` and writes them back."""
        (group,) = self.param_groups
        beta1, beta2 = group["betas"]
        for place, table in enumerate(self.tables):
            state = self.state[place]
            state["step"] += 1
            gradient, touched = table.values.grad, table.touched
            if gradient is None:
                continue
            moments1 = state["moments1"][touched].lerp_(gradient, 1.0 - beta1)
            moments2 = state["moments2"][touched].mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
            state["moments1"].index_copy_(0, touched, moments1)
            state["moments2"].index_copy_(0, touched, moments2)
            rate = group["lr"] / (1.0 - beta1 ** state["step"])
            correction = (1.0 - beta2 ** state["step"]) ** 0.5
            table.values.addcdiv_(moments1, moments2.sqrt_().div_(correction).add_(group["eps"]), value=-rate)
            table.rows.index_copy_(0, touched, table.values)
