"""From labels and predictions to numbers one can trust: evaluate, compare, look at fields."""

from monocal.judging.compare import Comparison, compare
from monocal.judging.evaluate import evaluate
from monocal.judging.field_table import FieldTable, field_table
from monocal.judging.report import Report

__all__ = ["evaluate", "Report", "compare", "Comparison", "field_table", "FieldTable"]
