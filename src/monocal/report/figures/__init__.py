"""The plots of a report as matplotlib figures, for notebooks and slides."""

from monocal.report.figures.drift import drift_figure
from monocal.report.figures.learned_curves import curves_figure
from monocal.report.figures.pcoc_by_value import pcoc_by_value_figure
from monocal.report.figures.reliability import reliability_figure

__all__ = ["curves_figure", "drift_figure", "pcoc_by_value_figure", "reliability_figure"]
