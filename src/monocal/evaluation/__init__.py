"""From labels and predictions to numbers one can trust: evaluate, compare, look at fields."""

from monocal.evaluation.compare import Comparison, compare
from monocal.evaluation.evaluate import evaluate
from monocal.evaluation.field_table import FieldTable, field_table
from monocal.evaluation.report import Report

__all__ = ["evaluate", "Report", "compare", "Comparison", "field_table", "FieldTable"]
