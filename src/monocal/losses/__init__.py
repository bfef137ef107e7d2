"""Differentiable objectives on logits. Running averages live in the loss, not in the training loop."""

from monocal.losses.base import Loss
from monocal.losses.cross_entropy import CrossEntropy, cross_entropy
from monocal.losses.field_calibration import FieldCalibrationLoss
from monocal.losses.smooth_calibration import PRESETS, SmoothCalibrationLoss, SmoothCalibrationSettings
from monocal.losses.squared_error import SquaredError, squared_error
from monocal.losses.weighted_sum import WeightedSum

__all__ = [
    "Loss",
    "CrossEntropy",
    "cross_entropy",
    "SquaredError",
    "squared_error",
    "SmoothCalibrationLoss",
    "SmoothCalibrationSettings",
    "PRESETS",
    "FieldCalibrationLoss",
    "WeightedSum",
]
