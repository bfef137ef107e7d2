"""From labels and predictions to numbers one can trust: evaluate, compare, look at fields, write a report."""

from typing import TYPE_CHECKING, Any

from monocal.evaluation.compare import Comparison, compare
from monocal.evaluation.evaluate import evaluate
from monocal.evaluation.field_table import FieldTable, field_table
from monocal.evaluation.report import Report

if TYPE_CHECKING:
    from monocal.evaluation.html_report import build_report, write_report

__all__ = [
    "evaluate",
    "Report",
    "compare",
    "Comparison",
    "field_table",
    "FieldTable",
    "build_report",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Imports the report when it is asked for: it needs models and tables, which `evaluate` does not."""
    if name not in ("build_report", "write_report"):
        raise AttributeError(f"module 'monocal.evaluation' has no attribute {name!r}")
    from monocal.evaluation import html_report

    return getattr(html_report, name)
