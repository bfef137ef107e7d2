"""Calibrators trained by gradient descent; torch is imported only when fitting."""

from monocal.neural.base import NeuralCalibrator
from monocal.neural.methods import Desc, Fac, Sbcr, Umc

__all__ = ["NeuralCalibrator", "Umc", "Fac", "Sbcr", "Desc"]
