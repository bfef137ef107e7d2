"""Calibrators trained by gradient descent; torch is imported only when fitting."""

from monocal.neural.base import NeuralCalibrator
from monocal.neural.methods import DescCalibrator, FacCalibrator, SbcrCalibrator, UmcCalibrator

__all__ = ["NeuralCalibrator", "UmcCalibrator", "FacCalibrator", "SbcrCalibrator", "DescCalibrator"]
