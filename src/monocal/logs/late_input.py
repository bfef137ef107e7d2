"""What a fit was given, also where labels may still come."""

from __future__ import annotations

from typing import Any

from monocal.core.errors import InvalidInput
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.scored_input import Embeddings, ScoredInput, scored_input
from monocal.tables.late_labels import LateLabels, check_late_columns, mature
from monocal.tables.rows import Rows


def late_input(
    table: ScoredInput,
    *,
    event_time: str | None,
    label_time: str | None,
    window: str | None,
    time: str | None,
    **columns: Any,
) -> tuple[Rows | EncodedLog, Embeddings | None, LateLabels | None]:
    """Returns what a fit was given, as `scored_input` does; where labels may still come, its rows are in time order.

    Such rows know their maturity, and what is known about their labels is returned as well.

    Arguments:
        table: What a user gave.
        event_time: When a row happened, where labels may still come.
        label_time: When a positive label came.
        window: How long labels count.
        time: Column that orders rows; by default the event time.
        columns: The other roles of a table's columns.
    """
    late = check_late_columns(event_time, label_time, window)
    moments = {"time": time or event_time, "event_time": event_time, "label_time": label_time}
    given, embeddings = scored_input(table, **moments, **columns)
    if not late:
        return given, embeddings, None
    if not isinstance(given, Rows):
        raise InvalidInput.of(
            "label_time", "a prepared log", "a table with scores, where labels may still come", "fit the table itself"
        )
    rows, labels = mature(given, str(window))
    return rows.in_time_order(), embeddings, labels
