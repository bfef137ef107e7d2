"""The loss of a network that answers for several tasks, of which a row may have labels for some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from monocal.core.batches import iterate_batches
from monocal.core.fingerprint import fingerprint
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.losses import CrossEntropy
from monocal.training.calibration_objective import EVALUATION_ROWS, tensor_of
from monocal.training.history import TrainingHistory
from monocal.training.loop import minimise
from monocal.training.objective import Batch, Objective
from monocal.training.options import TrainingOptions


@final
@dataclass(frozen=True)
class JointRows:
    """Rows of several tasks.

    Attributes:
        logits: `(n, tasks)`, as they enter the network.
        beside: `(n, tasks)`, what is added to the network's logits and not trained.
        labels: `(n, tasks)`, 0 or 1, or -1 where a task was not observed; every row has one label at least.
        features: Field ids `(n, F)`.
        weights: How often each row counts; None means once.
    """

    logits: Floats
    beside: Floats
    labels: NDArray[np.int8]
    features: Ids
    weights: Floats | None = None

    def columns(self) -> dict[str, NDArray[Any]]:
        """Returns the columns by name."""
        return {name: column for name, column in vars(self).items() if column is not None}


@final
class JointObjective(Objective):
    r"""The mean cross-entropy of all labels that are there, whichever task they belong to.

    .. math:: L = \frac{\sum_{i,k} m_{ik} w_i\,\ell(z'_{ik}, y_{ik})}{\sum_{i,k} m_{ik} w_i}, \qquad m_{ik} \in \{0, 1\}

    Arguments:
        network: Takes logits `(b, tasks)` and field ids.
        rows: The rows to learn from.
        held_out: Rows whose loss decides which weights are kept.
    """

    def __init__(self, network: nn.Module, rows: JointRows, held_out: JointRows | None) -> None:
        super().__init__(network, CrossEntropy())
        self.rows, self.held_out = rows, held_out

    def columns(self) -> Batch:
        return self.rows.columns()

    def fingerprint(self) -> str:
        both = (self.rows, self.held_out)
        return fingerprint(*[column for rows in both if rows is not None for column in rows.columns().values()])

    def gradients(self, batch: Batch) -> float:
        loss, _ = self._loss(batch)
        self.network.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    @torch.no_grad()
    def held_out_loss(self) -> float | None:
        if self.held_out is None:
            return None
        self.network.eval()
        found = [self._loss(batch) for batch in iterate_batches(self.held_out.columns(), EVALUATION_ROWS)]
        return sum(float(loss) * mass for loss, mass in found) / sum(mass for _, mass in found)

    def _loss(self, batch: Batch) -> tuple[Tensor, float]:
        """Returns the mean loss of a batch and how many labels stand behind it."""
        labels = tensor_of(batch["labels"])
        known = labels >= 0
        logits = self.network(tensor_of(batch["logits"]), tensor_of(batch["features"])) + tensor_of(batch["beside"])
        weights = tensor_of(batch["weights"])[:, None].expand_as(logits)[known] if "weights" in batch else None
        loss: Tensor = self.loss(logits[known], labels[known].to(logits.dtype), weights)
        return loss, float(known.sum() if weights is None else weights.sum())


def train_jointly(
    network: nn.Module, rows: JointRows, held_out: JointRows | None, options: TrainingOptions
) -> TrainingHistory:
    """Trains a network of several tasks in place and returns what happened; see `train`.

    Arguments:
        network: Takes logits `(b, tasks)` and field ids `(b, F)`; returns logits `(b, tasks)`.
        rows: The rows to learn from.
        held_out: More recent rows for early stopping; None for none.
        options: Rates, batches, stopping, checkpoints.
    """
    history = minimise(JointObjective(network, rows, held_out), options)
    network.eval()
    return history
