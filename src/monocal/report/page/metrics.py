"""The metric table."""

from __future__ import annotations

import math

from monocal.findings.metric_table import MetricRow, MetricSide
from monocal.findings.numbers import decimals, measured, span
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import (
    Cell,
    Column,
    Row,
    badge,
    details,
    number,
    section,
    table,
    text,
)

_MOODS = {"better": "good", "worse": "bad", "tie": "neutral"}

_COLUMNS = (
    Column("Metric", numeric=False),
    Column("Before", "uncalibrated, with its interval"),
    Column("After", "calibrated, with its interval"),
    Column("Noise floor", "what a perfect forecast would score on this many rows"),
    Column("Change", "after minus before, with its paired interval", wide_only=True),
    Column("Verdict", "tie: the paired interval does not exclude equality", numeric=False, wide_only=True),
)


def metrics(task: TaskReport, identifier: str) -> str:
    """The section of metrics: the main ones at once, all of them on demand."""
    found = task.metrics
    main = [_row(one) for one in found.rows if one.is_main]
    rest = [_row(one) for one in found.rows if not one.is_main]
    missing = "".join(f"<li>{text(title)}: {text(reason)}</li>" for title, reason in found.missing)
    parts = [table(f"{identifier}-main", "Main metrics before and after", _COLUMNS, main)]
    if rest:
        parts.append(
            details(f"{len(rest)} more metrics", table(f"{identifier}-rest", "Further metrics", _COLUMNS, rest))
        )
    if missing:
        parts.append(f'<div class="note">Not computed: <ul>{missing}</ul></div>')
    lead = (
        f"Small numbers are {found.confidence:.0%} intervals from a bootstrap over {text(found.resampled)}. The "
        "noise floor is "
        "what a <em>perfect</em> forecast would score on as many rows: a value at its floor cannot be improved."
    )
    return section(identifier, "Metrics with intervals and noise floors", lead, *parts)


def _row(row: MetricRow) -> Row:
    places = min((decimals(*side.interval) for side in (row.after, row.before) if math.isfinite(side.value)), default=4)
    judgement = badge(row.verdict, _MOODS[row.verdict]) if row.verdict else "–"
    change = measured(row.difference, *row.difference_interval)
    return Row(
        (
            Cell(
                f'<b>{text(row.title)}</b> <span class="narrow">{judgement}</span>'
                f'<small class="wide">{text(row.meaning)}</small>',
                row.title,
            ),
            _value(row.before, places),
            _value(row.after, places),
            number(f"{row.floor:.{places}f}" if math.isfinite(row.floor) else "–"),
            Cell(
                f"{'+' if row.difference > 0 else ''}{change}<small>{text(span(*row.difference_interval))}</small>",
                row.difference,
                "n",
            ),
            Cell(judgement, row.verdict),
        )
    )


def _value(side: MetricSide, places: int) -> Cell:
    if not math.isfinite(side.value):
        return Cell(f"–<small>{text(side.reason)}</small>", float("nan"), "n")
    return Cell(f"{side.value:.{places}f}<small>{text(span(*side.interval, places))}</small>", side.value, "n")
