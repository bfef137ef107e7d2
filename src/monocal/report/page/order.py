"""What happened to the order of rows."""

from __future__ import annotations

import math

from monocal.core.numbers import count, percent, signed_percent, span
from monocal.findings.order import TOP_SHARES, PairChanges
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import Cell, Column, Row, number, section, table, text, words
from monocal.report.page.metrics import TITLES

_COLUMNS = (Column("What", numeric=False), Column("Result"), Column("Detail", numeric=False))


def order(task: TaskReport, identifier: str) -> str:
    """The section of order."""
    found = task.order
    if not found.uses_features:
        why = "The method looks at the score alone, so it can only keep the order or tie rows."
    elif found.monotone == "none":
        why = "The method gives no guarantee about order."
    else:
        kept = "always stays higher" if found.monotone == "strict" else "never falls below a lower one"
        why = (
            f"For one and the same feature row a higher score {kept}; rows with <em>different</em> features may change "
            "their order, and that is how ranking can improve."
        )
    if math.isfinite(found.corrected) and found.corrected + found.worsened > 0.0:
        why += (
            f" Among pairs of a positive and a negative, {text(percent(found.corrected, 2))} are now in the right "
            f"order and were not, {text(percent(found.worsened, 2))} were and are no longer."
        )
    return section(identifier, "Order", why, table(f"{identifier}-facts", "Changes of order", _COLUMNS, _rows(task)))


def _rows(task: TaskReport) -> list[Row]:
    found = task.order
    rows = [_pairs("Pairs of rows that changed order", found.pairs)]
    if found.within_groups is not None:
        rows.append(_pairs(f"The same within one {task.groups}", found.within_groups))
    for share, kept in zip(TOP_SHARES, found.kept_on_top, strict=True):
        if math.isfinite(kept):
            title = f"Rows still in the top {percent(share)}"
            rows.append(Row((words(title), number(percent(kept)), words("of those that were there by score"))))
    for name in ("auc", "gauc"):
        row = task.metrics.row(name)
        if row is not None and math.isfinite(row.difference):
            before, after = row.values
            detail = f"{before:.4f} → {after:.4f}; change {span(*row.difference_interval)}: {row.verdict}"
            change = Cell(text(signed_percent(row.relative_change)), row.difference, "n")
            rows.append(Row((words(f"{TITLES[name][0]} changed by"), change, words(detail))))
    return rows


def _pairs(title: str, changes: PairChanges) -> Row:
    low, high = changes.swapped_interval
    extras = [f"{count(changes.n_pairs)} pairs drawn", f"interval {percent(low)} … {percent(high)}"]
    if changes.tied:
        extras.append(f"{percent(changes.tied)} became ties")
    if changes.split:
        extras.append(f"{percent(changes.split)} were ties and are ordered now")
    return Row((words(title), number(percent(changes.swapped)), words("; ".join(extras))))
