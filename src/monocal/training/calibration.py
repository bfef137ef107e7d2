"""Training a network of logits and field ids on samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from numpy.typing import NDArray
from torch import Tensor

from monocal.core.batches import iterate_batches
from monocal.core.fingerprint import fingerprint
from monocal.core.log_loss import log_loss
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.losses import CrossEntropy, Loss
from monocal.training.history import TrainingHistory
from monocal.training.loop import minimise
from monocal.training.objective import Batch, Objective
from monocal.training.options import TrainingOptions
from monocal.training.trainable import Trainable

EVALUATION_ROWS = 16_384
"""Rows per forward pass without gradients."""


def train(
    network: Trainable,
    rows: Samples,
    *,
    held_out: Samples | None = None,
    loss: Loss | None = None,
    options: TrainingOptions | None = None,
) -> TrainingHistory:
    """Trains a network in place and returns what happened.

    Rows may be memory maps of any length: memory is that of the network and of one window of batches. The result
    depends on rows, options and the network's start alone; the global random generators are neither read nor
    moved. With held-out rows the network ends with the weights of the check at which their log-loss was lowest,
    the untrained ones included.

    Arguments:
        network: What to train; it may have a penalty of its own.
        rows: The rows to learn from.
        held_out: More recent rows for early stopping.
        loss: What to minimise beside the network's penalty; cross-entropy if not given.
        options: Rates, batches, stopping, checkpoints.

    Example:
        >>> class Line(Trainable):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.line = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
        ...     def forward(self, logits, field_ids=None):
        ...         return self.line[0] * logits + self.line[1]
        >>> import numpy as np
        >>> z = np.linspace(-2, 2, 4000)
        >>> y = (np.arange(4000) * 0.618034) % 1 < 1 / (1 + np.exp(-(2 * z - 1)))
        >>> network = Line()
        >>> history = train(
        ...     network, Samples.of(z, y, scores_are="logit"), options=TrainingOptions(20, 500, learning_rate=0.05)
        ... )
        >>> [round(x, 1) for x in network(torch.tensor([0.0, 1.0])).tolist()]
        [-1.0, 1.0]
    """
    objective = CalibrationObjective(network, loss or CrossEntropy(), rows, held_out)
    history = minimise(objective, options or TrainingOptions())
    network.eval()
    return history


@torch.no_grad()
def evaluate(network: Trainable, rows: Samples) -> Floats:
    """Returns the network's logits of every row, in float64 and row order."""
    network.eval()
    parts = [
        network(_tensor(batch["logits"]), _tensor(batch["features"]) if "features" in batch else None)
        for batch in iterate_batches(_columns(rows), EVALUATION_ROWS)
    ]
    result: Floats = torch.cat(parts).to(torch.float64).numpy()
    return result


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

    def __init__(self, network: Trainable, loss: Loss, rows: Samples, held_out: Samples | None) -> None:
        super().__init__(network, loss)
        self.rows, self.held_out = rows, held_out

    def columns(self) -> Batch:
        return _columns(self.rows)

    def fingerprint(self) -> str:
        """Covers every score, label, feature and weight, of the held-out rows, too."""
        both = (self.rows, self.held_out)
        return fingerprint(
            *[
                column
                for rows in both
                if rows is not None
                for column in (rows.logits, rows.labels, rows.features, rows.weights)
            ]
        )

    def gradients(self, batch: Batch) -> float:
        field_ids = _tensor(batch["features"]) if "features" in batch else None
        weights = _tensor(batch["weights"]) if "weights" in batch else None
        logits = self.network(_tensor(batch["logits"]), field_ids)
        loss = self.loss(logits, _tensor(batch["labels"]), weights, field_ids) + self.network.penalty()
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
        return log_loss(evaluate(self.network, self.held_out), self.held_out.known_labels, self.held_out.weights)


def _columns(rows: Samples) -> dict[str, NDArray[Any]]:
    columns: Mapping[str, NDArray[Any] | None] = {
        "logits": rows.logits,
        "labels": rows.labels,
        "features": rows.features,
        "weights": rows.weights,
    }
    return {name: column for name, column in columns.items() if column is not None}


def _tensor(column: NDArray[Any]) -> Tensor:
    # a copy, because torch refuses views of read-only maps; floats in float64, as maps integrate in it
    return torch.tensor(column, dtype=torch.float64 if column.dtype.kind == "f" else None)
