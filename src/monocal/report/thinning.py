"""Making a report lighter without changing what it says."""

from __future__ import annotations

from dataclasses import replace

from monocal.findings.report_data import ReportData, TaskReport

STEPS: tuple[tuple[int, int], ...] = ((40, 3), (20, 2), (10, 1), (5, 1), (0, 0))
"""Values per field and pairs of fields in detail, from the whole report to the bare one."""


def thinned(data: ReportData, n_values: int, n_grids: int) -> ReportData:
    """Returns the report with fewer rows in its tables of values; counts, metrics and headlines stay the same.

    Arguments:
        data: The report.
        n_values: The most values shown per field.
        n_grids: The most pairs of fields shown value by value.
    """
    return replace(data, tasks=tuple(_thin(task, n_values, n_grids) for task in data.tasks))


def _thin(task: TaskReport, n_values: int, n_grids: int) -> TaskReport:
    fields = tuple(replace(field, shown=field.shown[:n_values]) for field in task.fields)
    found = task.heat_map
    heat_map = None if found is None else replace(found, grids=found.grids[:n_grids])
    return replace(task, fields=fields, heat_map=heat_map)
