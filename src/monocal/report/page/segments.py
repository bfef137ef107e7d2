"""The worst segments, in positives and in money."""

from __future__ import annotations

from monocal.findings.numbers import count, ratio, span
from monocal.findings.report_data import TaskReport
from monocal.findings.segments import Segment, SegmentSide
from monocal.report.page.elements import (
    Cell,
    Column,
    Row,
    number,
    section,
    table,
    table_filters,
    text,
)


def segments(task: TaskReport, identifier: str) -> str:
    """The section of segments."""
    found = task.segments
    if not found.n_candidates:
        return ""
    money = (
        f" Money is promised minus delivered <code>{text(task.value)}</code>, the same way."
        if found.has_value
        else " Name a bid or value column with <code>value=</code> to see them in money, too."
    )
    lead = (
        f"Which parts of the traffic are wrong, ranked by what it costs. {text(count(found.n_flagged_before))} of "
        f"{text(count(found.n_candidates))} segments were off beyond luck before calibration, "
        f"{text(count(found.n_flagged_after))} after it. A gap is promised minus delivered positives; a dash means "
        f"luck explains it.{money} "
        "Segments overlap, so gaps do not add up."
    )
    columns = [
        Column("Segment", numeric=False),
        Column("Rows"),
        Column("Before", "PCOC with its interval", wide_only=True),
        Column("After", "PCOC with its interval", wide_only=True),
        Column("Gap was", "before: positives promised too many (+) or too few (−)"),
        Column("Gap is", "after: positives promised too many (+) or too few (−)"),
    ]
    if found.has_value:
        columns += [
            Column("Money was", "before: promised minus delivered value"),
            Column("Money is", "after: promised minus delivered value"),
        ]
    filters = table_filters(
        f"{identifier}-worst",
        (),
        [("", "all segments"), ("single", "single values"), ("pair", "pairs of values"), ("off-after", "off after")],
        "field or value",
    )
    rows = [_row(one, found.has_value) for one in found.worst]
    return section(
        identifier,
        "Worst segments",
        lead,
        table(f"{identifier}-worst", "Worst segments before and after", columns, rows, filters=filters),
    )


def _row(segment: Segment, has_value: bool) -> Row:
    name = " × ".join(
        f"{text(field)}=<b>{text(value if len(value) <= 40 else value[:39] + '…')}</b>"
        for field, value in segment.parts
    )
    cells = [
        Cell(name, segment.name[:80]),
        number(count(segment.weight)),
        _pcoc(segment.before),
        _pcoc(segment.after),
        _gap(segment.before.gap, segment.before.flagged),
        _gap(segment.after.gap, segment.after.flagged),
    ]
    if has_value:
        cells += [
            _gap(segment.before.value_gap, segment.before.flagged),
            _gap(segment.after.value_gap, segment.after.flagged),
        ]
    tags = ["single" if len(segment.parts) == 1 else "pair"]
    tags += [f"off-{name}" for name, side in (("before", segment.before), ("after", segment.after)) if side.flagged]
    return Row(cells, " ".join(tags))


def _pcoc(side: SegmentSide) -> Cell:
    return Cell(f"{ratio(side.pcoc)}<small>{text(span(side.low, side.high, 2))}</small>", style="n")


def _gap(gap: float, flagged: bool) -> Cell:
    if not flagged:
        return Cell('<span class="quiet">–</span>', 0.0, "n")
    sign = "+" if gap > 0.0 else ""
    return Cell(f"{sign}{text(count(gap))}", abs(gap), "n")
