"""The section on new and rare values."""

from __future__ import annotations

from monocal.core.numbers import count, percent, ratio
from monocal.evaluation.fields import SeenBand
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import Cell, Column, Row, badge, number, section, table, text, words

_COLUMNS = (
    Column("Field", numeric=False),
    Column("Seen in the fit", "Rows of the fit that had the value", numeric=False),
    Column("Share of rows", "Share of the rows of this report, counted with weights"),
    Column("Log-loss before"),
    Column("Log-loss after"),
    Column("PCOC before", "Predicted over observed positives; 1 is right", wide_only=True),
    Column("PCOC after", "Predicted over observed positives; 1 is right"),
    Column("Noise", "How far from 1 chance alone takes the PCOC of 95 in 100 such groups", wide_only=True),
)
_LEAD = (
    "Rows by how often their value was seen in the fit. An unseen value has no effect of its own: a parent field "
    "(an advertiser for its ads, a category for its products) gives it one."
)


def new_values(task: TaskReport, identifier: str) -> str:
    """The section on new and rare values; nothing if all values were seen about as often."""
    if not task.seen:
        return ""
    rows = [_row(name, band, task.weight) for name, bands in task.seen.items() for band in bands]
    return section(
        identifier,
        "New and rare values",
        text(_LEAD),
        table(f"{identifier}-seen", "Errors by how often a value was seen", _COLUMNS, rows),
    )


def _row(name: str, band: SeenBand, total: float) -> Row:
    after, noise = band.pcoc["after"], band.noise
    mark = badge("beyond noise", "bad") if abs(after - 1.0) > noise else ""
    return Row(
        (
            words(name),
            Cell(text(band.title), band.least),
            Cell(f"{percent(band.n_rows / total)}<small>{count(band.n_positive)} positives</small>", band.n_rows, "n"),
            *(number(f"{band.log_loss[side]:.5f}", band.log_loss[side]) for side in ("before", "after")),
            number(ratio(band.pcoc["before"]), band.pcoc["before"]),
            Cell(f"{ratio(after)}{mark}", after, "n"),
            number(f"± {noise:.3f}" if noise == noise else "no positives", noise),
        )
    )
