"""What was learned and how much of it is carried forward."""

from __future__ import annotations

from math import isfinite

from monocal.core.numbers import count, percent
from monocal.findings.carried_forward import CarriedField, CarriedForward
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import Cell, Column, Row, number, section, table, text, words

_COLUMNS = (
    Column("Field", numeric=False),
    Column("Values", "Values that the model knows"),
    Column("Share carried", "Share of the field's effect that the model keeps, with its standard error"),
    Column("Values come back", "Share of later rows whose value had rows before"),
)


def carried_forward(task: TaskReport, identifier: str) -> str:
    """The section on what is carried forward; nothing for a method that believes everything it learned."""
    found = task.carried
    if found is None:
        return ""
    remarks = "".join(f"<li>{text(remark)}</li>" for remark in found.remarks)
    return section(
        identifier,
        "What was learned",
        text(_lead(found)),
        table(f"{identifier}-shares", "What is carried forward", _COLUMNS, [_row(field) for field in found.fields]),
        f"<ul>{remarks}</ul>" if remarks else "",
    )


def _lead(found: CarriedForward) -> str:
    if found.judged:
        return (
            "Effects learned on older rows of the fit were judged on its later rows. The model keeps the "
            "share of each effect that held there: 1 keeps all of it, 0 leaves the field out."
        )
    return (
        "Nothing learned was judged on later rows of the fit: there were too few, or every share was given. Shares "
        "that were not given are assumed."
    )


def _row(field: CarriedField) -> Row:
    if field.given:
        beside = "given"
    elif isfinite(field.error):
        beside = f"± {field.error:.2f}"
    else:
        beside = "assumed"
    share = Cell(f"{field.share:.2f}<small>{text(beside)}</small>", field.share, "n")
    return Row(
        (words(field.name), number(count(field.n_values)), share, number(percent(field.returning), field.returning))
    )
