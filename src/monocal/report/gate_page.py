"""The verdict of a gate as one HTML page."""

from __future__ import annotations

from pathlib import Path

from monocal.core.files import atomic_file
from monocal.core.numbers import count, ratio
from monocal.core.outputs import output_file
from monocal.monitoring.gate import GateVerdict, TaskVerdict
from monocal.report.page.elements import Column, Row, number, section, slug, table, text, words
from monocal.report.page.shell import page

_ORDER = {"worse": 0, "better": 1, "tie": 2}


def write_gate_page(found: GateVerdict, path: str | Path) -> Path:
    """Writes the verdict as one HTML file, atomically; it needs no network and no other file."""
    target = output_file(path, "html")
    title = "The new model passes" if found.passed else "The new model does not pass"
    maturity = [] if found.late_labels is None else [str(found.late_labels)]
    body = "".join(_task(name, verdict, found) for name, verdict in found.tasks.items())
    html = page(
        title,
        " · ".join([f"{found.n_rows:,} rows", f"old {found.old}", f"new {found.new}", *maturity]),
        " ".join(found.reasons()),
        f"<main>\n{body}</main>\n",
    )
    with atomic_file(target) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return target


def _task(name: str, verdict: TaskVerdict, found: GateVerdict) -> str:
    reason = next(text for text in found.reasons() if text.startswith(f"{name}: "))
    lead = f"{text(reason)}. Predicted over observed: {ratio(verdict.pcoc[0])} before, {ratio(verdict.pcoc[1])} after."
    if not verdict.segments:
        return section(slug(name), name, lead)
    columns = [
        Column("column", numeric=False),
        Column("value", numeric=False),
        Column("rows"),
        Column("old log-loss"),
        Column("new log-loss"),
        Column("difference", f"with its {found.confidence:.0%} interval"),
        Column("new is", numeric=False),
    ]
    ordered = sorted(verdict.segments, key=lambda part: (_ORDER[part.judged.verdict], -abs(part.judged.difference)))
    rows = []
    for part in ordered:
        judged = part.judged
        change = f"{judged.difference:+.5f} ({judged.low:+.5f} … {judged.high:+.5f})"
        numbers = [number(count(judged.rows)), number(f"{judged.old:.5f}"), number(f"{judged.new:.5f}")]
        cells = [words(part.column), words(part.value), *numbers, number(change, judged.difference)]
        rows.append(Row([*cells, words(judged.verdict)]))
    caption = (
        f"{len(ordered):,} values of guarded columns; worse means more than {found.max_harm:.1%} of the old log-loss, "
        f"with the false discovery rate held at {1.0 - found.confidence:.0%}"
    )
    return section(slug(name), name, lead, table(f"segments-{slug(name)}", caption, columns, rows))
