"""Making a report lighter without changing what it says."""

from __future__ import annotations

from dataclasses import replace

from monocal.findings.report_data import ReportData, TaskReport

STEPS = (40, 20, 10, 5, 0)
"""Values per field, from the whole report to the bare one."""


def thinned(data: ReportData, n_values: int) -> ReportData:
    """Returns the report with fewer rows in its tables of values; counts, metrics and headlines stay the same.

    Arguments:
        data: The report.
        n_values: The most values shown per field.
    """
    return replace(data, tasks=tuple(_thin(task, n_values) for task in data.tasks))


def _thin(task: TaskReport, n_values: int) -> TaskReport:
    fields = tuple(replace(field, shown=field.shown[:n_values]) for field in task.fields)
    return replace(task, fields=fields)
