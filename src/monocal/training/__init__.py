"""The one training loop: options, batches, early stopping, averaging, checkpoints."""

from monocal.training.diagnosis import TrainingDiverged
from monocal.training.history import TrainingHistory
from monocal.training.loop import evaluate, train
from monocal.training.options import TrainingOptions

__all__ = ["train", "evaluate", "TrainingOptions", "TrainingHistory", "TrainingDiverged"]
