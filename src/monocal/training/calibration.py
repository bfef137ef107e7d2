"""Training a network of logits and field ids on samples."""

from __future__ import annotations

from monocal.core.dataset import Dataset
from monocal.losses import CrossEntropy, Loss
from monocal.training.calibration_objective import CalibrationObjective
from monocal.training.history import TrainingHistory
from monocal.training.loop import minimise
from monocal.training.options import TrainingOptions
from monocal.training.trainable import Trainable


def train(
    network: Trainable,
    rows: Dataset,
    *,
    held_out: Dataset | None = None,
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
        >>> import torch
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
        ...     network, Dataset.of(z, y, scores_are="logit"), options=TrainingOptions(20, 500, learning_rate=0.05)
        ... )
        >>> [round(x, 1) for x in network(torch.tensor([0.0, 1.0])).tolist()]
        [-1.0, 1.0]
    """
    objective = CalibrationObjective(network, loss or CrossEntropy(), rows, held_out)
    history = minimise(objective, options or TrainingOptions())
    network.eval()
    return history
