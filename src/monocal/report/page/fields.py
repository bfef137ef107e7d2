"""PCOC by field and by field value."""

from __future__ import annotations

import math

from monocal.findings.cells import Side
from monocal.findings.fields import FieldResult
from monocal.findings.numbers import count, p_value, percent, ratio, span
from monocal.findings.report_data import TaskReport
from monocal.findings.spread import Spread
from monocal.report.page.elements import (
    Cell,
    Column,
    Row,
    badge,
    number,
    section,
    slug,
    table,
    table_filters,
    text,
)
from monocal.report.svg.interval_row import interval_row

_FIELD_COLUMNS = (
    Column("Field", numeric=False),
    Column("Now", "is the field outside its noise, as a whole or through single values?", numeric=False),
    Column("Values"),
    Column("Before", "typical error of a value beyond luck, as a share of its promise"),
    Column("After", "typical error of a value beyond luck, as a share of its promise"),
    Column("Uneven", "error after calibration once the overall bias is taken out", wide_only=True),
    Column("Off before", "values outside noise", wide_only=True),
    Column("Off after", "values outside noise"),
    Column("Unseen", "rows whose value the model had never met", wide_only=True),
)

_VALUE_COLUMNS = (
    Column("Value", numeric=False),
    Column("Noise", "outside noise, with the false discovery rate held", numeric=False),
    Column("Rows"),
    Column("Positives", wide_only=True),
    Column("Before", "PCOC with its interval"),
    Column("After", "PCOC with its interval"),
    Column(
        "⅓ · · 1 · · 3",
        "both intervals on a logarithmic axis; sorts by the distance from 1 after calibration",
        numeric=False,
    ),
    Column(
        "Shrunk", "PCOC after calibration, pulled towards 1 as far as the value's own data are thin", wide_only=True
    ),
)


def fields(task: TaskReport, identifier: str) -> str:
    """The section of fields; a sentence when there are none."""
    if not task.fields:
        return section(
            identifier,
            "By field value",
            "No fields were given, so nothing can be said about parts of the traffic. Name some with "
            "<code>fields=</code>: that is where most errors hide.",
        )
    total, shown = sum(len(one.values) for one in task.fields), sum(len(one.shown) for one in task.fields)
    lead = (
        "Predicted over observed positives (PCOC) for the values of every field. <b>1 is right, 1.2 promises "
        "20&nbsp;% too much.</b> A value is called <em>off</em> only if luck cannot explain it: first the fields are "
        "tested, then the values of those that are off, with false alarms held at 5&nbsp;% of the calls "
        f"(Benjamini–Hochberg, {text(count(total))} values in all). Rare values are not folded into “other”: each is "
        "estimated by itself and pulled towards 1 as far as its own data are thin."
    )
    choices = [("", "all fields"), *((slug(one.name), one.name) for one in task.fields)]
    flags = [("", "all values"), ("off-after", "off after"), ("off-before", "off before")]
    filters = table_filters(f"{identifier}-values", choices, flags, "value, e.g. site_17")
    note = (
        f'<p class="note">The table holds the {text(count(shown))} largest and worst of {text(count(total))} values; '
        "all of them are counted in the field table.</p>"
        if shown < total
        else ""
    )
    return section(
        identifier,
        "By field value",
        lead,
        table(f"{identifier}-all", "Fields", _FIELD_COLUMNS, map(_field_row, task.fields), shown=30),
        "<h3>Values</h3>",
        table(f"{identifier}-values", "Field values", _VALUE_COLUMNS, _value_rows(task), filters=filters),
        note,
    )


def _field_row(result: FieldResult) -> Row:
    before, after = result.spread_before, result.spread_after
    judgement = badge("outside noise", "bad") if result.outside_after else badge("within noise", "good")
    return Row(
        (
            Cell(f"<b>{text(result.name)}</b>"),
            Cell(f"{judgement}<small>p {text(p_value(after.p_value))}</small>", after.p_value),
            number(count(len(result.values))),
            _error(before),
            _error(after),
            _error(result.uneven_after),
            number(count(result.before.n_flagged)),
            number(count(result.after.n_flagged)),
            number(percent(result.unseen_share, 2)),
        )
    )


def _error(spread: Spread) -> Cell:
    if math.isnan(spread.relative_error):
        return number("–", float("nan"))
    shown = percent(spread.relative_error, 2) if spread.is_visible else f"< {percent(spread.resolution, 2)}"
    return number(shown, spread.relative_error if spread.is_visible else 0.0)


def _value_rows(task: TaskReport) -> list[Row]:
    found: list[tuple[float, Row]] = []
    for result in task.fields:
        for place in result.shown:
            found.append(_value_row(result, int(place)))
    found.sort(key=lambda one: -one[0])
    return [row for _, row in found]


def _value_row(result: FieldResult, place: int) -> tuple[float, Row]:
    before, after = result.before, result.after
    tags = [slug(result.name)]
    tags += [f"off-{side}" for side in ("before", "after") if result.estimates(side).flagged[place]]
    weight, observed = float(result.cells.weight[place]), float(result.cells.observed[place])
    shrunk = float(after.shrunk[place])
    noise = _noise(bool(before.flagged[place]), bool(after.flagged[place]))
    distance = abs(shrunk - 1.0)
    row = Row(
        (
            Cell(f"{text(_short(result.values[place]))} <small>{text(_short(result.name))}</small>"),
            Cell(noise, float(after.p_value[place])),
            number(count(weight)),
            number(count(observed)),
            _pcoc(result, place, "before"),
            _pcoc(result, place, "after"),
            Cell(interval_row(_triple(result, place, "before"), _triple(result, place, "after")), distance),
            number(ratio(shrunk)),
        ),
        " ".join(tags),
    )
    gap = abs(float(result.cells.after.predicted[place]) * (1.0 - 1.0 / shrunk))
    return gap, row


def _noise(before: bool, after: bool) -> str:
    if after:
        return badge("off", "bad")
    return badge("was off", "good") if before else badge("within", "neutral")


def _pcoc(result: FieldResult, place: int, side: Side) -> Cell:
    value, low, high = _triple(result, place, side)
    return Cell(f"{ratio(value)}<small>{text(span(low, high, 2))}</small>", style="n")


def _triple(result: FieldResult, place: int, side: Side) -> tuple[float, float, float]:
    one = result.estimates(side)
    return float(one.pcoc[place]), float(one.low[place]), float(one.high[place])


def _short(value: str, at_most: int = 48) -> str:
    return value if len(value) <= at_most else value[: at_most - 1] + "…"
