"""Finds out why a loss is not a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from monocal.core.errors import MonocalError

_ROWS_SHOWN = 5


class TrainingDiverged(MonocalError, ArithmeticError):
    """The training loss became infinite or not a number. The message names the rows and what is suspicious."""


def diverged(
    loss: float, batch: Mapping[str, NDArray[Any]], network: nn.Module, epoch: int, step: int
) -> TrainingDiverged:
    """Builds the error for a batch whose loss is not finite.

    Arguments:
        loss: The loss.
        batch: The batch's columns, with its row numbers under `rows`.
        network: The network, whose weights may be broken already.
        epoch: The epoch, counted from 1.
        step: The step, counted from 1.
    """
    where = f"epoch {epoch}, step {step}"
    for name, column in batch.items():
        if name == "rows" or column.dtype.kind != "f":
            continue
        broken = np.flatnonzero(~np.isfinite(column))
        if broken.size:
            rows = ", ".join(str(row) for row in batch["rows"][broken[:_ROWS_SHOWN]])
            more = f" and {broken.size - _ROWS_SHOWN} more" if broken.size > _ROWS_SHOWN else ""
            return TrainingDiverged(
                f"{where}: the loss is {loss}, because column {name!r} is {column[broken[0]]} at rows {rows}{more}. "
                "Hint: drop or fill those rows"
            )
    weights = [name for name, weight in network.named_parameters() if not bool(weight.detach().isfinite().all())]
    if weights:
        return TrainingDiverged(
            f"{where}: the loss is {loss}, because the weights {', '.join(weights)} are no longer finite. "
            "Hint: lower the learning rate"
        )
    finite = f"{where}: the loss is {loss} although every input and weight is finite"
    sizes = {
        name: np.abs(column)
        for name, column in batch.items()
        if name != "labels" and column.ndim == 1 and column.dtype.kind == "f"
    }
    if not sizes:
        return TrainingDiverged(f"{finite}. Hint: lower the learning rate")
    name = max(sizes, key=lambda column: float(sizes[column].max()))
    place = int(sizes[name].argmax())
    return TrainingDiverged(
        f"{finite}; the largest value is {float(batch[name][place]):g} in column {name!r} at row "
        f"{int(batch['rows'][place])}. Hint: check that row, or lower the learning rate"
    )
