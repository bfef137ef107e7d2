"""Public contract checks, for what this package exports and for what others write; nobody imports it."""

from monocal.testing.calibrator_laws import check_calibrator
from monocal.testing.metric_laws import check_metric

__all__ = ["check_calibrator", "check_metric"]
