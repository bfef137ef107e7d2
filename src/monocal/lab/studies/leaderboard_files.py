"""Results on disk: long-form Parquet, the leaderboard as Markdown and as one HTML page, figures as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from monocal.core.files import atomic_file
from monocal.lab.studies.leaderboard import EXPLANATION, MARKS, Section, published_section, sections, versions
from monocal.lab.studies.study import Study
from monocal.lab.studies.study_figures import draw_curve

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas; }
td.best { font-weight: 700; }
td.worse { color: color-mix(in srgb, #c05200 75%, CanvasText); }
td.better { color: color-mix(in srgb, #0068a8 75%, CanvasText); }
tr.floor td { font-style: italic; opacity: .75; }
figure { margin: 1.5rem 0; background: white; border-radius: 6px; padding: .5rem; }
figure svg { max-width: 100%; height: auto; }
"""


def write_results(
    study: Study, rows: list[dict[str, Any]], folder: Path, missing: Mapping[str, str] | None = None
) -> Path:
    """Writes `results.parquet`, `leaderboard.md`, `leaderboard.html` and figures; returns the Markdown's path."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    with atomic_file(folder / "results.parquet") as temporary:
        pq.write_table(table, temporary)
    figures = {curve.name: draw_curve(curve, rows) for curve in study.curves}
    drawn = {name: svg for name, svg in figures.items() if svg is not None}
    texts = {f"{study.name}-{name}.svg": svg for name, svg in drawn.items()}
    texts["leaderboard.html"] = html(study, rows, drawn, missing)
    texts["leaderboard.md"] = markdown(study, rows, list(drawn), missing)
    for name, text in texts.items():
        with atomic_file(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return folder / "leaderboard.md"


def markdown(
    study: Study,
    rows: Sequence[dict[str, Any]],
    figures: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
) -> str:
    """Returns the leaderboard as Markdown; figures are referred to by their file names beside it."""
    parts = [f"# Study `{study.name}`", "", study.question, "", f"Seeds {_seeds(study)}. {EXPLANATION}", ""]
    for name in figures:
        title = next(curve.title for curve in study.curves if curve.name == name)
        parts += [f"![{title}]({study.name}-{name}.svg)", ""]
    for section in sections(study, rows):
        parts += _markdown_section(section)
        parts += _size_line(rows, section.data)
        parts += [line for spec in study.data if spec.name == section.data for line in published_section(spec.source)]
    for name, reason in (missing or {}).items():
        parts += [f"## {name}", "", f"Skipped: {reason}", ""]
    return "\n".join([*parts, f"Versions: {versions()}.", f"Command: `monocal lab bench {study.name}`.", ""])


def html(
    study: Study,
    rows: Sequence[dict[str, Any]],
    figures: Mapping[str, str] | None = None,
    missing: Mapping[str, str] | None = None,
) -> str:
    """Returns the leaderboard as one self-contained page."""
    title = f"Study {study.name}"
    plain = EXPLANATION.replace("*", "")
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(study.question)}</p>"]
    parts += [f"<p>Seeds {_seeds(study)}. {escape(plain)}</p>"]
    # matplotlib's own text, whose XML prologue has no place inside a page
    parts += [f"<figure>{svg[svg.index('<svg') :]}</figure>" for svg in (figures or {}).values()]
    for section in sections(study, rows):
        parts += _html_section(section)
    parts += [f"<h2>{escape(name)}</h2><p>Skipped: {escape(why)}</p>" for name, why in (missing or {}).items()]
    parts += [f"<p>Versions: {escape(versions())}. Command: <code>monocal lab bench {escape(study.name)}</code>.</p>"]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _seeds(study: Study) -> str:
    return ", ".join(map(str, study.seeds))


def _size_line(rows: Sequence[dict[str, Any]], data: str) -> list[str]:
    """Says how large a data set is, in rows, fields and positives."""
    row = next(row for row in rows if row["data"] == data)
    return [
        f"{row['n_calibration']:,} calibration rows, {row['rate']:.2%} positive, with {row['n_fields']} fields; "
        f"{row['n_test']:,} test rows.",
        "",
    ]


def _markdown_section(section: Section) -> list[str]:
    head = ["calibrator", *section.metrics, "CPU s", "GiB"]
    lines = [f"## {section.data}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, entries, cost in section.lines:
        texts = [
            f"**{entry.text}**"
            if entry.verdict == "best" and metric == "log_loss"
            else entry.text + MARKS[entry.verdict]
            for metric, entry in zip(section.metrics, entries, strict=True)
        ]
        lines.append(f"| {name} | " + " | ".join(texts) + f" | {cost.cpu_seconds:.1f} | {cost.gibibytes:.1f} |")
    lines.append("| *floor* | " + " | ".join(section.floors) + " | | |")
    skipped = [f"- {name}: skipped, {reason}" for name, reason in section.skipped]
    periods = []
    if section.periods:
        head = ["PCOC", *section.periods]
        periods = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        periods += [f"| {name} | " + " | ".join(values) + " |" for name, values in section.by_period]
    return [*lines, "", *skipped, *([""] if skipped else []), *periods, *([""] if periods else [])]


def _html_section(section: Section) -> list[str]:
    head = "".join(f"<th>{escape(name)}</th>" for name in ("calibrator", *section.metrics, "CPU s", "GiB"))
    lines = [f"<h2>{escape(section.data)}</h2>", f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>']
    for name, entries, cost in section.lines:
        cells = "".join(
            f'<td class="{entry.verdict}">{escape(entry.text + MARKS[entry.verdict])}</td>' for entry in entries
        )
        lines.append(
            f"<tr><td>{escape(name)}</td>{cells}<td>{cost.cpu_seconds:.1f}</td><td>{cost.gibibytes:.1f}</td></tr>"
        )
    floors = "".join(f"<td>{escape(text)}</td>" for text in section.floors)
    lines.append(f'<tr class="floor"><td>floor</td>{floors}<td></td><td></td></tr></tbody></table></div>')
    if section.periods:
        heads = "".join(f"<th>{escape(name)}</th>" for name in ("PCOC", *section.periods))
        lines.append(f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>')
        for name, values in section.by_period:
            lines.append(f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{value}</td>" for value in values) + "</tr>")
        lines.append("</tbody></table></div>")
    lines += [f"<p>{escape(name)}: skipped, {escape(reason)}</p>" for name, reason in section.skipped]
    return lines
