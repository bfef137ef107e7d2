"""PCOC by field and by field value."""

from __future__ import annotations

import math

from monocal.core.numbers import count, p_value, percent, ratio, shorten
from monocal.evaluation.stats import Spread
from monocal.findings.before_after import BeforeAfter
from monocal.findings.fields import FieldResult
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import (
    Cell,
    Column,
    Row,
    badge,
    number,
    pcoc_cell,
    section,
    slug,
    table,
    table_filters,
    text,
)
from monocal.report.svg.interval_row import interval_row

_FIELD_COLUMNS = (
    Column("Field", numeric=False),
    Column("After calibration", "is the field off, as a whole or through single values?", numeric=False),
    Column("Values"),
    Column("Before", "typical error of a value beyond chance, as a share of its prediction"),
    Column("After", "typical error of a value beyond chance, as a share of its prediction"),
    Column("Uneven", "error after calibration once the overall bias is taken out", wide_only=True),
    Column("Off before", "values significantly off after correction", wide_only=True),
    Column("Off after", "values significantly off after correction"),
    Column("Unseen", "rows whose value was not in the fit", wide_only=True),
)

_VALUE_COLUMNS = (
    Column("Value", numeric=False),
    Column("Verdict", "significantly off, with the false discovery rate held", numeric=False),
    Column("Rows"),
    Column("Positives", wide_only=True),
    Column("Before", "PCOC with its interval"),
    Column("After", "PCOC with its interval"),
    Column(
        "⅓ · · 1 · · 3",
        "both intervals on a logarithmic axis; sorts by the distance from 1 after calibration",
        numeric=False,
    ),
    Column("Shrunk", "PCOC after calibration, shrunk towards 1, the more the fewer rows the value has", wide_only=True),
)


def fields(task: TaskReport, identifier: str) -> str:
    """The section of fields; a sentence when there are none."""
    if not task.fields:
        return section(
            identifier,
            "By field value",
            "No fields were given, so there is no calibration by segment. Name some with <code>fields=</code>.",
        )
    total, shown = task.headline.n_values, sum(len(field.shown) for field in task.fields)
    lead = (
        "Predicted over observed positives (PCOC) for the values of every field. <b>1 is right, 1.2 predicts "
        "20&nbsp;% too much.</b> A value is called <em>off</em> only if its error is significant after correction: "
        "first the fields are tested, then the values of those that are off, with the false discovery rate held at "
        f"5&nbsp;% (Benjamini–Hochberg, {text(count(total))} values in all). Rare values are not folded into “other”: "
        "each is estimated by itself and shrunk towards 1, the more the fewer rows it has."
    )
    choices = [("", "all fields"), *((slug(field.name), field.name) for field in task.fields)]
    flags = [("", "all values"), ("off-after", "off after"), ("off-before", "off before")]
    filters = table_filters(f"{identifier}-values", choices, flags, "value, e.g. site_17")
    note = (
        f'<p class="note">The table holds the {text(count(shown))} largest and worst of {text(count(total))} values; '
        "all of them are counted in the field table.</p>"
        if shown < total
        else ""
    )
    places = [(field, int(place)) for field in task.fields for place in field.shown]
    places.sort(key=lambda found: -abs(found[0].errors.after.shrunk_gap[found[1]]))
    rows = [_value_row(field, place) for field, place in places]
    return section(
        identifier,
        "By field value",
        lead,
        table(f"{identifier}-all", "Fields", _FIELD_COLUMNS, map(_field_row, task.fields), shown=30),
        "<h3>Values</h3>",
        table(f"{identifier}-values", "Field values", _VALUE_COLUMNS, rows, filters=filters),
        note,
    )


def _field_row(result: FieldResult) -> Row:
    before, after = result.errors
    judgement = badge("significantly off", "bad") if after.is_significant else badge("not significant", "good")
    return Row(
        (
            Cell(f"<b>{text(result.name)}</b>"),
            Cell(f"{judgement}<small>p {text(p_value(after.spread.p_value))}</small>", after.spread.p_value),
            number(count(len(result.values))),
            _error(before.spread),
            _error(after.spread),
            _error(after.relative_spread),
            number(count(before.n_flagged)),
            number(count(after.n_flagged)),
            number(percent(result.unseen_share, 2)),
        )
    )


def _error(spread: Spread) -> Cell:
    if math.isnan(spread.relative_error):
        return number("–", float("nan"))
    shown = percent(spread.relative_error, 2) if spread.is_visible else f"< {percent(spread.resolution, 2)}"
    return number(shown, spread.relative_error if spread.is_visible else 0.0)


def _value_row(result: FieldResult, place: int) -> Row:
    flagged = result.errors.map(lambda errors: bool(errors.flagged[place]))
    intervals = result.errors.map(
        lambda errors: (float(errors.cells.pcoc[place]), float(errors.low[place]), float(errors.high[place]))
    )
    cells = result.errors.after.cells
    shrunk = float(cells.shrunk_pcoc[place])
    tags = [slug(result.name), *(f"off-{side}" for side, is_flagged in flagged.items() if is_flagged)]
    return Row(
        (
            Cell(f"{text(shorten(result.values[place], 48))} <small>{text(shorten(result.name, 48))}</small>"),
            Cell(_verdict(flagged), float(cells.p_values[place])),
            number(count(float(result.weight[place]))),
            number(count(float(result.observed[place]))),
            *(pcoc_cell(*interval) for interval in intervals),
            Cell(interval_row(*intervals), abs(shrunk - 1.0)),
            number(ratio(shrunk)),
        ),
        " ".join(tags),
    )


def _verdict(flagged: BeforeAfter[bool]) -> str:
    if flagged.after:
        return badge("off", "bad")
    return badge("was off", "good") if flagged.before else badge("not significant", "neutral")
