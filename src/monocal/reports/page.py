"""From numbers to one HTML file that needs nothing else and can call nobody: the report, and the page of a gate."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monocal.core import numbers
from monocal.core.files import atomic_file, check_output, output_file
from monocal.core.version import __version__
from monocal.evaluation.compare import MARGIN
from monocal.models.model import Model
from monocal.reports import plots, verdict
from monocal.reports.data import ReportData, TaskReport, build_report
from monocal.reports.svg import asset
from monocal.reports.tables import MOODS, FieldResult, MetricRow
from monocal.tables.source import TableLike

if TYPE_CHECKING:
    from jinja2 import Environment

    from monocal.monitoring.gate import GateVerdict

LARGEST_BYTES = 600_000
"""A report stays below this size, so that it can be mailed."""

VALUES_PER_FIELD = (40, 20, 10, 5, 0)
"""Values per field that are shown, from the whole report to the bare one."""

TITLES = {
    "log_loss": ("Log-loss", "mean negative log-likelihood in nats; a proper scoring rule"),
    "ne": ("Normalised entropy", "log-loss divided by that of always predicting the average rate"),
    "brier": ("Brier score", "mean squared distance between forecast and outcome"),
    "pcoc": ("PCOC", "predicted over observed positives; 1 is ideal"),
    "ece": ("ECE", "mean gap between prediction and outcome over 100 bins of equal width"),
    "adaptive_ece": ("Adaptive ECE", "the same over bins of equal mass"),
    "smooth_ece": ("Smooth ECE", "calibration error without bins"),
    "rce": ("RCE", "mean relative gap over bins of equal width"),
    "cal_n": ("Cal-N", "root mean square of PCOC's distance from 1 over bins of equal mass"),
    "mce": ("MCE", "largest gap of any bin"),
    "mvce": ("MVCE", "gap over many random cuts of the rows"),
    "fece": ("FECE", "mean gap over the values of the first field"),
    "mfece": ("MFECE", "FECE averaged over all fields"),
    "frce": ("FRCE", "mean relative gap over the values of the first field"),
    "mfrce": ("MFRCE", "FRCE averaged over all fields"),
    "auc": ("AUC", "probability that a positive is ranked above a negative"),
    "gauc": ("GAUC", "AUC inside groups, averaged"),
    "ndcg": ("NDCG@10", "how early the positives of a group come among its first ten rows"),
}
"""How each metric is called and what it says, in reading order."""

MAIN_METRICS = ("log_loss", "pcoc", "ece", "mfrce", "frce", "auc", "gauc")
_GATE_ORDER = {"worse": 0, "better": 1, "tie": 2}


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
    _templates()
    data = build_report(model, table, **options)
    for n_values in VALUES_PER_FIELD:
        html = render(data.shortened(n_values))
        if len(html.encode()) <= LARGEST_BYTES:
            break
    return _write(target, html)


def render(data: ReportData) -> str:
    """Returns the report as one HTML document; the same data give the same bytes.

    Styles and script are inside; a content security policy allows exactly these two by their hashes and forbids every
    request, so that nothing in the data can run or call out.
    """
    return _page(
        "report.html.j2",
        title=data.title,
        subtitle=_subtitle(data),
        summary=" ".join(verdict.verdict(task) for task in data.tasks),
        panels=[_panel(task, place) for place, task in enumerate(data.tasks)],
        provenance=data.provenance,
        titles=TITLES,
        moods=MOODS,
        margin=MARGIN,
    )


def write_gate_page(found: GateVerdict, path: str | Path) -> Path:
    """Writes the verdict of a gate as one HTML file, atomically; it needs no network and no other file."""
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
                reasons[name],
                task,
                sorted(task.segments, key=lambda one: (_GATE_ORDER[one.verdict], -abs(one.difference))),
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
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError('a page needs jinja2. Hint: pip install "monocal[report]"') from error

    made = Environment(
        loader=PackageLoader("monocal.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for function in (numbers.count, numbers.percent, numbers.ratio, numbers.significant, numbers.p_value):
        made.filters[function.__name__] = function
    for drawing in (plots.reliability_plot, plots.ratio_plot, plots.drift_plot, plots.rates_plot, plots.curves_plot):
        made.filters[drawing.__name__] = drawing
    for sentence in (verdict.verdict, verdict.sentences, verdict.key_figures, verdict.drift_in_words):
        made.filters[sentence.__name__] = sentence
    made.filters |= {
        "shorten": numbers.shorten,
        "span": lambda ends, places=None: numbers.span(ends[0], ends[1], places),
        "decimal": lambda number, places: f"{number:.{places}f}" if math.isfinite(number) else numbers.UNKNOWN,
        "decimal_places": _decimal_places,
        "signed_difference": _signed_difference,
        "sortable": lambda order: order if isinstance(order, str) else f"{order:.6g}" if order == order else "",
        "score_shift_in_words": verdict.score_shift_in_words,
        "effect_plot": plots.effect_plot,
        "curve_name": plots.curve_name,
        "interval_row": lambda *sides: Markup(plots.interval_row(*sides)),
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
    return " · ".join([*parts, data.provenance.late_labels] if data.provenance.late_labels else parts)


def _panel(task: TaskReport, place: int) -> dict[str, Any]:
    sections = {
        "summary": "Summary",
        "reliability": "Reliability",
        "metrics": "Metrics",
        "fields": "By field value",
        "seen": "New values" if task.seen else "",
        "drift": "Over time",
        "retained": "Retained effects" if task.retained else "",
        "curves": "Learned curves",
        "numeric": "Numeric fields" if task.numeric else "",
    }
    rows = [row for row in (task.metrics.row(name) for name in TITLES) if row is not None]
    values = [(field, int(value)) for field in task.fields for value in field.shown]
    values.sort(key=lambda found: -abs(found[0].errors.after.shrunk_gap[found[1]]))
    return {
        "task": task,
        "id": f"task-{place}-{slug(task.name)}",
        "sections": {name: title for name, title in sections.items() if title},
        "main_metrics": [row for row in rows if row.name in MAIN_METRICS],
        "further_metrics": [row for row in rows if row.name not in MAIN_METRICS],
        "field_slugs": [(slug(field.name), field.name) for field in task.fields],
        "value_rows": [_value(field, value) for field, value in values],
    }


def _value(field: FieldResult, place: int) -> dict[str, Any]:
    off = field.errors.map(lambda errors: bool(errors.flagged[place]))
    pcoc: Sequence[tuple[float, float, float]] = [
        (float(errors.cells.pcoc[place]), float(errors.low[place]), float(errors.high[place]))
        for errors in field.errors
    ]
    cells = field.errors.after.cells
    return {
        "field": field.name,
        "value": field.values[place],
        "tags": " ".join([slug(field.name), *(f"off-{side}" for side, flagged in off.items() if flagged)]),
        "off": off,
        "p_value": float(cells.p_values[place]),
        "weight": float(field.weight[place]),
        "observed": float(field.observed[place]),
        "pcoc": pcoc,
        "shrunk": float(cells.shrunk_pcoc[place]),
    }


def _decimal_places(row: MetricRow) -> int:
    return min((numbers.decimals(*side.interval) for side in row.sides if math.isfinite(side.value)), default=4)


def _signed_difference(row: MetricRow) -> str:
    return ("+" if row.difference > 0 else "") + numbers.measured(row.difference, *row.difference_interval)
