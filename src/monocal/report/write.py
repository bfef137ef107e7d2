"""From a model and a table to a file that can be forwarded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from monocal.core.files import atomic_file, check_output
from monocal.core.outputs import output_file
from monocal.findings.build import build_report
from monocal.findings.report_data import ReportData
from monocal.models.model import Model
from monocal.report.page.document import render
from monocal.report.thinning import STEPS, thinned
from monocal.tables.source import TableLike

LARGEST_BYTES = 600_000
"""A report stays below this size, so that it can be mailed."""


def write_report(model: Model | str | Path, table: TableLike, path: str | Path, **options: Any) -> Path:
    """Measures a model on a table and writes the report as one HTML file, atomically.

    The file needs no network and no other file, works without JavaScript, and is at most 600 KB: a report with very
    many fields and tasks shows fewer values of each.

    Arguments:
        model: A model or the folder of a saved one.
        table: Rows with the model's columns and labels: a path or a data frame.
        path: Where to write the HTML file.
        options: See `build_report`: `label`, `time`, `value`, `group`, `weight`, `fields`, `title`, `command`,
            `confidence`, `n_bootstrap`, `n_floor`, `seed`.

    Example:
        >>> import monocal, tempfile
        >>> log = monocal.simulate_log(4_000, seed=1).table()
        >>> model = monocal.fit(log.slice(0, 2_000), method="platt", score="pctr", label="click")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = write_report(model, log.slice(2_000), folder + "/report.html", fields=["device"])
        ...     written.name, written.stat().st_size < LARGEST_BYTES
        ('report.html', True)
    """
    target = output_file(path)
    check_output(target, [given for given in (model, table) if isinstance(given, str | Path)])
    html = render_small(build_report(model, table, **options))
    with atomic_file(target) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return target


def render_small(data: ReportData, at_most: int = LARGEST_BYTES) -> str:
    """Returns the report as HTML of at most so many bytes, with fewer values per field if it must."""
    html = ""
    for n_values in STEPS:
        html = render(thinned(data, n_values))
        if len(html.encode()) <= at_most:
            break
    return html
