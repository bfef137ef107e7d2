"""Calibrators trained by gradient descent; torch is imported only when fitting."""

from monocal.neural.methods import DescCalibrator, FacCalibrator, SbcrCalibrator, UmcCalibrator

__all__ = ["UmcCalibrator", "FacCalibrator", "SbcrCalibrator", "DescCalibrator"]
