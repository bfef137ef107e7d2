"""The worst segments, in positives and in value."""

from __future__ import annotations

from monocal.core.numbers import count, shorten
from monocal.findings.report_data import TaskReport
from monocal.findings.segments import Segment
from monocal.report.page.elements import (
    Cell,
    Column,
    Row,
    number,
    pcoc_cell,
    section,
    table,
    table_filters,
    text,
)

_COLUMNS = (
    Column("Segment", numeric=False),
    Column("Rows"),
    Column("Before", "PCOC with its interval", wide_only=True),
    Column("After", "PCOC with its interval", wide_only=True),
    Column("Gap before", "predicted minus observed positives, before calibration"),
    Column("Gap after", "predicted minus observed positives, after calibration"),
)
_VALUE_COLUMNS = (
    Column("Value before", "predicted minus delivered value, before calibration"),
    Column("Value after", "predicted minus delivered value, after calibration"),
)


def segments(task: TaskReport, identifier: str) -> str:
    """The section of segments."""
    found = task.segments
    if not found.n_candidates:
        return ""
    value = (
        f" Value is predicted minus delivered <code>{text(task.value)}</code>, the same way."
        if found.has_value
        else " Name a bid or value column (<code>--value</code>, in Python <code>value=</code>) to see its gaps, too."
    )
    lead = (
        f"Segments ranked by their gap. {text(count(found.n_flagged.before))} of "
        f"{text(count(found.n_candidates))} segments were significantly off before calibration, "
        f"{text(count(found.n_flagged.after))} after it. A gap is predicted minus observed positives; a dash means not "
        f"significant after correction.{value} Segments overlap, so gaps do not add up."
    )
    filters = table_filters(
        f"{identifier}-worst",
        (),
        [("", "all segments"), ("single", "single values"), ("pair", "pairs of values"), ("off-after", "off after")],
        "field or value",
    )
    columns = (*_COLUMNS, *_VALUE_COLUMNS) if found.has_value else _COLUMNS
    rows = [_row(segment, found.has_value) for segment in found.worst]
    return section(
        identifier,
        "Worst segments",
        lead,
        table(f"{identifier}-worst", "Worst segments before and after", columns, rows, filters=filters),
    )


def _row(segment: Segment, has_value: bool) -> Row:
    name = " × ".join(f"{text(field)}=<b>{text(shorten(value))}</b>" for field, value in segment.parts)
    cells = [
        Cell(name, segment.name[:80]),
        number(count(segment.weight)),
        *(pcoc_cell(side.pcoc, side.low, side.high) for side in segment.sides),
        *(_gap(side.gap, side.flagged) for side in segment.sides),
    ]
    if has_value:
        cells += [_gap(side.value_gap, side.flagged) for side in segment.sides]
    tags = ["single" if len(segment.parts) == 1 else "pair"]
    tags += [f"off-{name}" for name, side in segment.sides.items() if side.flagged]
    return Row(cells, " ".join(tags))


def _gap(gap: float, flagged: bool) -> Cell:
    if not flagged:
        return Cell('<span class="quiet">–</span>', 0.0, "n")
    sign = "+" if gap > 0.0 else ""
    return Cell(f"{sign}{text(count(gap))}", abs(gap), "n")
