"""From numbers to one HTML file that needs nothing else and can call nobody: the report, and the page of a gate."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monocal.core import __version__, numbers
from monocal.core.errors import need
from monocal.core.files import atomic_file, check_output, output_file
from monocal.evaluation.paired import MARGIN
from monocal.evaluation.result import Evaluation
from monocal.models.model import Model
from monocal.reports import plots, verdict
from monocal.reports.data import ReportData, TaskReport, build_report
from monocal.reports.svg import asset
from monocal.tables.source import TableLike
from monocal.tables.table import Table

if TYPE_CHECKING:
    from jinja2 import Environment

    from monocal.monitoring.gate import GateVerdict

LARGEST_BYTES = 600_000
"""A report stays below this size, so that it can be mailed."""

VALUES_PER_FIELD = (40, 20, 10, 5, 0)
"""Values per field that are shown, from the whole report to the bare one."""

_GATE_ORDER = {"worse": 0, "better": 1, "tie": 2}


def report(model: Model | str | Path, table: TableLike | Table, path: str | Path, **options: Any) -> Path:
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
        ...     written = report(model, log.slice(2_000), folder + "/report.html", fields=["device"])
        ...     written.name, written.stat().st_size < LARGEST_BYTES
        ('report.html', True)
    """
    target = output_file(path)
    check_output(target, [given for given in (model, table) if isinstance(given, str | Path)])
    _templates()
    data = build_report(model, table, **options)
    for n_values in VALUES_PER_FIELD:
        html = render(data, n_values)
        if len(html.encode()) <= LARGEST_BYTES:
            break
    return _write(target, html)


def render(data: ReportData, n_values: int = VALUES_PER_FIELD[0]) -> str:
    """Returns the report as one HTML document; the same data give the same bytes.

    Styles and script are inside; a content security policy allows exactly these two by their hashes and forbids every
    request, so that nothing in the data can run or call out.

    Arguments:
        data: The numbers.
        n_values: At most so many values per field stand in its tables; counts and verdicts are those of all.
    """
    return _page(
        "report.html.j2",
        title=data.title,
        subtitle=_subtitle(data),
        summary=" ".join(verdict.verdict(task) for task in data.tasks),
        panels=[_panel(task, place, n_values) for place, task in enumerate(data.tasks)],
        provenance=data.provenance,
        moods=verdict.MOODS,
        margin=MARGIN,
        unknown=math.nan,
    )


def write_gate_page(found: GateVerdict, path: str | Path) -> Path:
    """Writes the verdict of a gate as one HTML file, atomically; it needs no network and no other file.

    Arguments:
        found: What `monocal.gate` returned.
        path: The file to write, ending in `.html`.
    """
    target = output_file(path, "html")
    reasons = dict(zip(found.tasks, found.reasons(), strict=True))
    parts = [f"{found.n_rows:,} rows", f"old {found.old}", f"new {found.new}"]
    html = _page(
        "gate.html.j2",
        title="The new model passes" if found.passed else "The new model does not pass",
        subtitle=" · ".join(parts if found.late_labels is None else [*parts, str(found.late_labels)]),
        summary=" ".join(reasons.values()),
        found=found,
        tasks=[
            (
                name,
                reasons[name].removeprefix(f"{name}: "),
                task,
                sorted(task.segments, key=lambda cell: (_GATE_ORDER[cell.verdict], -abs(cell.difference))),
            )
            for name, task in found.tasks.items()
        ],
    )
    return _write(target, html)


def slug(words: str) -> str:
    """A name as an identifier of the page.

    Example:
        >>> slug("Long view / 7 s")
        'long-view-7-s'
    """
    kept = "".join(sign if sign.isalnum() and sign.isascii() else "-" for sign in words.lower())
    return "-".join(part for part in kept.split("-") if part) or "x"


def _write(target: Path, html: str) -> Path:
    with atomic_file(target) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return target


def _page(template: str, **context: Any) -> str:
    from markupsafe import Markup

    dark = asset("dark.css")
    screens = f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme]) {{\n{dark}}} }}\n"
    screens += f':root[data-theme="dark"] {{\n{dark}}}\n'
    style = f"{asset('colours.css')}@media screen {{\n{screens}}}\n{asset('plot.css')}{asset('page.css')}"
    own = {"style": Markup(style), "script": Markup(asset("page.js")), "version": __version__}
    return _templates().get_template(template).render(own | context)


@cache
def _templates() -> Environment:
    need("jinja2", "a page", "report")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("monocal.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for chapter in (numbers, plots, verdict):
        made.filters |= {name: value for name, value in vars(chapter).items() if isfunction(value) and name[0] != "_"}
    made.tests["known"] = math.isfinite
    made.filters |= {
        "span": lambda ends, places=None: numbers.span(ends[0], ends[1], places),
        "decimal": lambda number, places: f"{number:.{places}f}" if math.isfinite(number) else numbers.UNKNOWN,
        "decimal_places": _decimal_places,
        "difference": _difference,
        "sortable": lambda order: order if isinstance(order, str) else f"{order:.6g}" if order == order else "",
        "slug": slug,
        "sha256": lambda text: base64.b64encode(hashlib.sha256(str(text).encode()).digest()).decode(),
    }
    return made


def _subtitle(data: ReportData) -> str:
    first = data.tasks[0]
    windows = first.drift.windows
    parts = [f"{data.provenance.n_rows:,} rows"]
    if windows.calendar:
        parts.append(f"{windows.label(0)[:10]} to {windows.label(windows.n_windows - 1)[:10]}")
    if data.provenance.table_name:
        parts.append(Path(data.provenance.table_name).name)
    parts.append(", ".join(dict.fromkeys(task.method for task in data.tasks)))
    return " · ".join([*parts, *filter(None, (data.provenance.late_labels, data.provenance.note))])


def _panel(task: TaskReport, place: int, n_values: int) -> dict[str, Any]:
    values = [(field, int(value)) for field in task.fields for value in field.shown[:n_values]]
    values.sort(key=lambda found: -abs(found[0].errors["after"].shrunk_gap[found[1]]))
    return {
        "task": task,
        "id": f"task-{place}-{slug(task.name)}",
        "field_slugs": [(slug(field.name), field.name) for field in task.fields],
        "values": values,
        "metrics": [name for name in task.metrics.names if verdict.is_defined(task.metrics, name)],
    }


def _decimal_places(metrics: Evaluation, name: str) -> int:
    sides = [side for side in metrics.stages.values() if math.isfinite(side.value(name))]
    return min((numbers.decimals(*side.interval(name)) for side in sides), default=4)


def _difference(metrics: Evaluation, name: str) -> str:
    if metrics.change is None:
        return numbers.UNKNOWN
    difference = metrics.change.difference(name)
    return ("+" if difference > 0 else "") + numbers.measured(difference, *metrics.change.interval(name))
