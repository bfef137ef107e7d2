"""From labels and predictions to numbers one can trust: evaluate, compare, look at fields."""

from monocal.evaluation.evaluate import evaluate
from monocal.evaluation.report import Report

__all__ = ["evaluate", "Report"]
