"""Results on disk: long-form Parquet, the leaderboard as Markdown, figures as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from monocal.core.files import atomic_file
from monocal.lab.studies.leaderboard import EXPLANATION, MARKS, Section, published_section, sections, versions
from monocal.lab.studies.study import Study
from monocal.lab.studies.study_figures import draw_curve


def write_results(
    study: Study, rows: list[dict[str, Any]], folder: Path, missing: Mapping[str, str] | None = None
) -> Path:
    """Writes `results.parquet`, `leaderboard.md` and figures; returns the Markdown's path."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    with atomic_file(folder / "results.parquet") as temporary:
        pq.write_table(table, temporary)
    figures = {curve.name: draw_curve(curve, rows) for curve in study.curves}
    drawn = {name: svg for name, svg in figures.items() if svg is not None}
    texts = {f"{study.name}-{name}.svg": svg for name, svg in drawn.items()}
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
