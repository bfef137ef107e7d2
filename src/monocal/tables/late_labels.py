r"""Rows whose labels may still come: how mature each of them is.

The label of a row of age a has come with probability :math:`F(a)` if it is positive (`monocal.core.delays`), so what is
seen now is Bernoulli(:math:`p\,F(a)`). Fits and judgements use exactly that; rows older than the window have
:math:`F = 1`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monocal.core.delays import DelayCurve, estimate_delays
from monocal.core.durations import duration_of
from monocal.core.errors import InvalidInput
from monocal.core.roles import Roles
from monocal.tables.encoded_column import EncodedColumn
from monocal.tables.read import read
from monocal.tables.rows import Rows
from monocal.tables.stream import Table


@final
@dataclass(frozen=True, eq=False)
class LateLabels:
    """What is known about labels that may still come.

    Attributes:
        window: After which no label counts, in the unit of the time column.
        mature_share: Share of rows that are older.
        mean_maturity: Mean over all rows of the share of positives whose label has come.
        curve: The delays.
    """

    window: int
    mature_share: float
    mean_maturity: float
    curve: DelayCurve

    def __str__(self) -> str:
        own = f", by {self.curve.by}" if self.curve.by else ""
        return (
            f"late labels: {self.mature_share:.1%} of the rows are older than the window; of all positives "
            f"{self.mean_maturity:.1%} are expected to have come{own}"
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "window": self.window,
            "mature_share": self.mature_share,
            "mean_maturity": self.mean_maturity,
            "curve": self.curve.as_dict(),
        }


def read_mature(
    table: Table,
    roles: Roles,
    *,
    since: str | None = None,
    until: str | None = None,
    curve: DelayCurve | None = None,
    unlabelled: bool = False,
) -> tuple[Rows, LateLabels | None]:
    """Reads rows; where labels may still come, rows know their maturity, and what is known about them is returned.

    Arguments:
        table: Anything `open_table` takes.
        roles: Which column plays which part.
        since: Rows before this moment are left out.
        until: Rows at or after this moment are left out.
        curve: Known delays, as in `mature`.
        unlabelled: Whether label columns may be absent, as in `read`.

    Example:
        >>> read_mature({"y": [0], "p": [0.1]}, Roles.of(score="p", label="y", event_time="ts", window="7d"))
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: label_time: got None; expected when a row happened, when its ...
    """
    is_late = roles.has_late_labels
    rows = read(table, roles, since=since, until=until, unlabelled=unlabelled)
    return mature(rows, curve) if is_late else (rows, None)


def mature(rows: Rows, curve: DelayCurve | None = None) -> tuple[Rows, LateLabels]:
    """Returns rows that know their maturity; labels that came after the window do not count.

    The moment of observation is the latest moment in the rows.

    Arguments:
        rows: Rows that were read with the roles `event_time`, `label_time` and `window`, of one task.
        curve: Known delays, for rows that are too few or too young to tell; those of the rows go first.
    """
    if len(rows.labels) != 1 or rows.event_times is None or rows.label_times is None:
        raise InvalidInput.of("label_time", f"{len(rows.labels)} tasks", "one task", "fit and judge tasks one by one")
    ((task, labels),) = rows.labels.items()
    window = str(rows.roles.window)
    length = duration_of(window, has_dates=rows.has_dates, argument="window")
    positive, come = labels == 1, rows.label_times >= 0
    delays = rows.label_times - rows.event_times
    _check(positive, come, delays)
    ages = max(int(rows.event_times.max()), int(rows.label_times.max(initial=0))) - rows.event_times
    counted = positive & (delays <= length)
    texts = {name: _texts(column) for name, column in rows.fields.items() if name in rows.roles.fields}
    fields = {name: (rows.fields[name].ids[counted], values) for name, values in texts.items()}
    found = estimate_delays(delays[counted], ages[counted], length, fields) or curve
    if found is None or found.window != length:
        raise InvalidInput.of(
            "window",
            f"{window!r}, and {np.count_nonzero(counted & (ages >= length)):,} positives in rows older than that",
            "at least 100 positives, a quarter of them in rows older than the window",
            "add older rows, or shorten the window",
        )
    by = found.by if found.by in texts else ""
    shares = found.at(ages, texts[by], rows.fields[by].ids) if by else found.at(ages)
    changed = np.where(positive & ~counted, 0, labels).astype(labels.dtype)
    known = replace(rows, labels={task: changed}, maturity=shares)
    return known, LateLabels(length, float(np.mean(ages >= length)), float(shares.mean()), found)


def _check(positive: Any, come: Any, delays: Any) -> None:
    without = np.flatnonzero(positive & ~come)
    if without.size:
        raise InvalidInput.of(
            "label_time",
            f"no moment in {without.size:,} rows with a positive label, the first at row {int(without[0])}",
            "when the label came, in every row with a positive one",
            "fill it in, or set the label to 0 until it has come",
        )
    early = np.flatnonzero(positive & (delays < 0))
    if early.size:
        raise InvalidInput.of(
            "label_time",
            f"a label before its event in {early.size:,} rows, the first at row {int(early[0])}",
            "labels that come after their event",
            "swap the two columns, or mend their time zones",
        )


def _texts(column: EncodedColumn) -> list[str]:
    texts: list[str] = pc.fill_null(column.known_values.cast(pa.string()), "(missing)").to_pylist()
    return texts
