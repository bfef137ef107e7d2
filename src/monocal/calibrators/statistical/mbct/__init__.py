"""MBCT: boosted calibration trees."""

from monocal.calibrators.statistical.mbct.mbct import MBCTCalibrator

__all__ = ["MBCTCalibrator"]
