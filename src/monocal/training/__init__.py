"""The one training loop: options, batches, early stopping, checkpoints."""

from monocal.training.calibration import train
from monocal.training.calibration_objective import evaluate
from monocal.training.diagnosis import TrainingDiverged
from monocal.training.history import TrainingHistory
from monocal.training.loop import minimise
from monocal.training.objective import Objective
from monocal.training.options import TrainingOptions

__all__ = ["train", "evaluate", "minimise", "Objective", "TrainingOptions", "TrainingHistory", "TrainingDiverged"]
