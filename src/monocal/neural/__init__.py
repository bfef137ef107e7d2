"""Calibrators trained by gradient descent. The export list is the registry; torch is imported only when fitting."""

from monocal.neural.desc.calibrator import DescCalibrator
from monocal.neural.fac.calibrator import FacCalibrator
from monocal.neural.sbcr.calibrator import SbcrCalibrator
from monocal.neural.umc.calibrator import UmcCalibrator

__all__ = ["UmcCalibrator", "FacCalibrator", "SbcrCalibrator", "DescCalibrator"]
