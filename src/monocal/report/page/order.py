"""What happened to the order of rows."""

from __future__ import annotations

import math

from monocal.findings.numbers import count, percent, signed_percent, span
from monocal.findings.order import TOP_SHARES, PairChanges
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import Cell, Column, Row, number, section, table, text, words


def order(task: TaskReport, identifier: str) -> str:
    """The section of order."""
    found = task.order
    if not found.uses_features:
        why = "The method looks at the score alone, so it can only keep the order or tie rows."
    elif found.monotone == "none":
        why = "The method makes no promise about order."
    else:
        kept = "always stays higher" if found.monotone == "strict" else "never falls below a lower one"
        why = (
            f"For one and the same feature row a higher score {kept}; rows with <em>different</em> features may "
            "overtake each other, and that is how ranking can improve."
        )
    return section(
        identifier,
        "Order",
        f"{why} {_righted(task)}",
        table(f"{identifier}-facts", "What happened to the order", _COLUMNS, _rows(task)),
    )


def _righted(task: TaskReport) -> str:
    found = task.order
    if not math.isfinite(found.righted) or found.righted + found.spoiled == 0.0:
        return ""
    return (
        f"Among pairs of a positive and a negative, {text(percent(found.righted, 2))} were put right and "
        f"{text(percent(found.spoiled, 2))} were spoiled."
    )


_COLUMNS = (Column("What", numeric=False), Column("Result"), Column("Detail", numeric=False))


def _rows(task: TaskReport) -> list[Row]:
    found = task.order
    rows = [_pairs("Pairs of rows that changed order", found.pairs)]
    if found.within_groups is not None:
        rows.append(_pairs(f"The same within one {task.groups}", found.within_groups))
    for share, kept in zip(TOP_SHARES, found.kept_on_top, strict=True):
        if math.isfinite(kept):
            rows.append(
                Row(
                    (
                        words(f"Rows still in the top {share:.0%}"),
                        number(percent(kept)),
                        words("of those that were there by score"),
                    )
                )
            )
    for name in ("auc", "gauc"):
        row = task.metrics.row(name)
        if row is not None and math.isfinite(row.difference):
            detail = (
                f"{row.before.value:.4f} → {row.after.value:.4f}; change {span(*row.difference_interval)}: "
                f"{row.verdict}"
            )
            rows.append(
                Row(
                    (
                        words(f"{row.title} changed by"),
                        Cell(text(signed_percent(row.difference / row.before.value)), row.difference, "n"),
                        words(detail),
                    )
                )
            )
    return rows


def _pairs(title: str, changes: PairChanges) -> Row:
    extras = [
        f"{count(changes.n_pairs)} pairs drawn",
        f"interval {percent(changes.swapped_low)} … {percent(changes.swapped_high)}",
    ]
    if changes.tied:
        extras.append(f"{percent(changes.tied)} became ties")
    if changes.split:
        extras.append(f"{percent(changes.split)} were ties and are ordered now")
    return Row((words(title), number(percent(changes.swapped)), words("; ".join(extras))))
