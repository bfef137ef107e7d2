"""The whole page: one HTML file that needs nothing else and can call nobody."""

from __future__ import annotations

from pathlib import Path

from monocal.findings.report_data import ReportData, TaskReport
from monocal.report.page.carried_forward import carried_forward
from monocal.report.page.drift import over_time
from monocal.report.page.elements import slug, text
from monocal.report.page.fields import fields
from monocal.report.page.learned_curves import learned_curves
from monocal.report.page.metrics import metrics
from monocal.report.page.new_values import new_values
from monocal.report.page.numeric_fields import numeric_fields
from monocal.report.page.overview import overview, verdict
from monocal.report.page.provenance import provenance
from monocal.report.page.reliability import reliability
from monocal.report.page.shell import page

_SECTIONS = (
    ("Summary", overview),
    ("Reliability", reliability),
    ("Metrics", metrics),
    ("By field value", fields),
    ("New and rare values", new_values),
    ("Over time", over_time),
    ("What was learned", carried_forward),
    ("Learned curves", learned_curves),
    ("Numeric fields", numeric_fields),
)


def render(data: ReportData) -> str:
    r"""Returns the report as one HTML document.

    Styles and script are inside; a content security policy allows exactly these two by their hashes and forbids every
    request, so that nothing in the data can run or call out. The same data give the same bytes.
    """
    panels = "".join(_panel(task, place, len(data.tasks)) for place, task in enumerate(data.tasks))
    body = f"{_tabs(data)}<main>\n{panels}\n{provenance(data.provenance, 'made')}</main>\n"
    return page(data.title, _subtitle(data), " ".join(verdict(task) for task in data.tasks), body)


def _subtitle(data: ReportData) -> str:
    first = data.tasks[0]
    windows = first.drift.windows
    parts = [f"{data.provenance.n_rows:,} rows"]
    if windows.calendar:
        parts.append(f"{windows.label(0)[:10]} to {windows.label(windows.n_windows - 1)[:10]}")
    if data.provenance.table_name:
        parts.append(Path(data.provenance.table_name).name)
    parts.append(", ".join(dict.fromkeys(task.method for task in data.tasks)))
    parts += [data.provenance.late_labels] if data.provenance.late_labels else []
    return " · ".join(parts)


def _tabs(data: ReportData) -> str:
    if len(data.tasks) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" role="tab" id="tab-{place}" aria-controls="{_identifier(task, place)}">'
        f"{text(task.name)}</button>"
        for place, task in enumerate(data.tasks)
    )
    return f'<div class="tabs js" role="tablist" aria-label="Tasks">{buttons}</div>\n'


def _panel(task: TaskReport, place: int, n_tasks: int) -> str:
    identifier = _identifier(task, place)
    names = [(title, f"{identifier}-{slug(title)}", make) for title, make in _SECTIONS]
    made = [(title, name, html) for title, name, make in names if (html := make(task, name))]
    links = "".join(f'<a href="#{name}">{text(title)}</a>' for title, name, _ in made)
    several = n_tasks > 1
    role = f' role="tabpanel" aria-labelledby="tab-{place}"' if several else ""
    name = f'<h2 class="taskname">Task: {text(task.name)}</h2>' if several else ""
    body = "\n".join(html for _, _, html in made)
    return (
        f'<div class="panel" id="{identifier}"{role}>{name}<nav class="sections" aria-label="Sections">{links}'
        f'<a href="#made">Reproduce</a></nav>\n{body}</div>'
    )


def _identifier(task: TaskReport, place: int) -> str:
    return f"task-{place}-{slug(task.name)}"
