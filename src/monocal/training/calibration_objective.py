"""The loss of a calibrator's network on samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monocal.core.batches import iterate_batches
from monocal.core.dataset import Dataset
from monocal.core.format import fingerprint
from monocal.core.spaces import Floats
from monocal.losses import Loss
from monocal.training.objective import Batch, Objective
from monocal.training.trainable import Trainable

EVALUATION_ROWS = 16_384
"""Rows per forward pass without gradients."""


@final
class CalibrationObjective(Objective):
    """The loss of a calibrator's network on samples, plus the network's own penalty.

    Arguments:
        network: What to train.
        loss: What to minimise.
        rows: The rows to learn from.
        held_out: Rows whose log-loss decides which weights are kept.
    """

    network: Trainable
    loss: Loss

    def __init__(self, network: Trainable, loss: Loss, rows: Dataset, held_out: Dataset | None) -> None:
        super().__init__(network, loss)
        self.rows, self.held_out = rows, held_out

    def columns(self) -> Batch:
        return columns_of(self.rows)

    def fingerprint(self) -> str:
        """Covers every score, label, feature and weight, of the held-out rows, too."""
        return fingerprint_of(self.rows, self.held_out)

    def gradients(self, batch: Batch) -> float:
        field_ids = tensor_of(batch["features"]) if "features" in batch else None
        weights = tensor_of(batch["weights"]) if "weights" in batch else None
        logits = self.network(tensor_of(batch["logits"]), field_ids)
        loss = self.loss(logits, tensor_of(batch["labels"]), weights, field_ids) + self.network.penalty()
        self.network.zero_grad(set_to_none=True)
        loss.backward()
        return float(loss.detach())

    def start_epoch(self) -> None:
        self.loss.start_epoch()

    def set_progress(self, share: float) -> None:
        self.network.set_progress(share)

    def held_out_loss(self) -> float | None:
        if self.held_out is None:
            return None
        return self.held_out.log_loss(evaluate(self.network, self.held_out))


@torch.no_grad()
def evaluate(network: Trainable, rows: Dataset) -> Floats:
    """Returns the network's logits of every row, in float64 and row order."""
    network.eval()
    result = np.empty(rows.n_rows)
    for batch in iterate_batches(columns_of(rows), EVALUATION_ROWS, with_rows=True):
        ids = tensor_of(batch["features"]) if "features" in batch else None
        result[batch["rows"]] = network(tensor_of(batch["logits"]), ids).numpy()
    return result


def fingerprint_of(rows: Dataset, held_out: Dataset | None) -> str:
    """Returns what changes with any score, label, feature or weight."""
    both = [rows] if held_out is None else [rows, held_out]
    return fingerprint(*[column for each in both for column in (each.z, each.y, each.ids, each.w)])


def columns_of(rows: Dataset) -> dict[str, NDArray[Any]]:
    """Returns the columns that a network learns from."""
    columns: Mapping[str, NDArray[Any] | None] = {
        "logits": rows.z,
        "labels": rows.y,
        "features": rows.ids,
        "weights": rows.w,
    }
    return {name: column for name, column in columns.items() if column is not None}


def tensor_of(column: NDArray[Any]) -> Tensor:
    """Returns a column as a tensor."""
    # a copy, because torch refuses views of read-only maps; floats in float64, as maps integrate in it
    return torch.tensor(column, dtype=torch.float64 if column.dtype.kind == "f" else None)
