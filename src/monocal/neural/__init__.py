"""Calibrators trained by gradient descent; torch is imported only when fitting."""

from monocal.neural.methods import DescCalibrator, FacCalibrator, SbcrCalibrator, UmcCalibrator
from monocal.neural.neural_calibrator import NeuralCalibrator

__all__ = ["NeuralCalibrator", "UmcCalibrator", "FacCalibrator", "SbcrCalibrator", "DescCalibrator"]
