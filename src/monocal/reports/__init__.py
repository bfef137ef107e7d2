"""The report a product manager forwards: one HTML file that shows what calibration changed, and what is only noise."""

from monocal.reports.data import ReportData, TaskReport, build_report
from monocal.reports.page import report, write_gate_page
from monocal.reports.verdict import verdict

__all__ = ["build_report", "report", "write_gate_page", "verdict", "ReportData", "TaskReport"]
