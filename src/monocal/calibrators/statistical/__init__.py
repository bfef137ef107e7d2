"""Calibrators that need neither torch nor numba. The export list is the registry."""

from monocal.calibrators.statistical.beta import BetaCalibrator
from monocal.calibrators.statistical.gamma import GammaCalibrator
from monocal.calibrators.statistical.gauss import GaussCalibrator
from monocal.calibrators.statistical.histogram import HistogramCalibrator
from monocal.calibrators.statistical.isotonic import IsotonicCalibrator
from monocal.calibrators.statistical.none import NoneCalibrator
from monocal.calibrators.statistical.per_segment import PerSegmentCalibrator
from monocal.calibrators.statistical.platt import PlattCalibrator
from monocal.calibrators.statistical.sir import SirCalibrator
from monocal.calibrators.statistical.temperature import TemperatureCalibrator
from monocal.calibrators.statistical.wide_logistic import WideLogisticCalibrator

__all__ = [
    "NoneCalibrator",
    "HistogramCalibrator",
    "IsotonicCalibrator",
    "SirCalibrator",
    "PlattCalibrator",
    "TemperatureCalibrator",
    "BetaCalibrator",
    "GaussCalibrator",
    "GammaCalibrator",
    "WideLogisticCalibrator",
    "PerSegmentCalibrator",
]
