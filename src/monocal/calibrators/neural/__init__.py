"""Calibrators trained by gradient descent. The export list is the registry; torch is imported only when fitting."""

from monocal.calibrators.neural.desc.calibrator import DescCalibrator
from monocal.calibrators.neural.fac.calibrator import FacCalibrator
from monocal.calibrators.neural.sbcr.calibrator import SbcrCalibrator
from monocal.calibrators.neural.umc.calibrator import UmcCalibrator

__all__ = ["UmcCalibrator", "FacCalibrator", "SbcrCalibrator", "DescCalibrator"]
