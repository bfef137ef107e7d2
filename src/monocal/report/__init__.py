"""The report a product manager forwards: one HTML file that shows what calibration changed, and what is only noise."""

from monocal.findings.build import build_report
from monocal.findings.report_data import ReportData, TaskReport
from monocal.report.page.overview import verdict
from monocal.report.write import write_report

__all__ = ["build_report", "write_report", "verdict", "ReportData", "TaskReport"]
