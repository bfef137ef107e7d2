"""Calibrators trained by gradient descent. The export list is the registry; torch is imported only when fitting."""

from monocal.calibrators.neural.adacalib import AdaCalibrator
from monocal.calibrators.neural.desc import DescCalibrator
from monocal.calibrators.neural.fac import FacCalibrator
from monocal.calibrators.neural.sbcr import SbcrCalibrator
from monocal.calibrators.neural.umc import UmcCalibrator

__all__ = ["UmcCalibrator", "FacCalibrator", "SbcrCalibrator", "DescCalibrator", "AdaCalibrator"]
