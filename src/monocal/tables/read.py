"""Reading a table: batch by batch into rows, each column checked for the part it plays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.freed_memory import give_back_freed_memory
from monocal.core.progress import progress
from monocal.core.roles import Roles
from monocal.tables.categories import check_categories, whole_numbers
from monocal.tables.coded import coded, coded_numbers, join_coded
from monocal.tables.columns import (
    labels_or_missing,
    moments_of,
    moments_or_none,
    numbers,
    numbers_or_nan,
    soft_labels_or_missing,
)
from monocal.tables.moments import Kind, check_one_kind, kinds_of_moments
from monocal.tables.row_problems import RawRows
from monocal.tables.rows import Rows
from monocal.tables.stream import Table, open_table
from monocal.tables.time_window import TimeWindow


def read(
    table: Table, roles: Roles, *, since: str | None = None, until: str | None = None, unlabelled: bool = False
) -> Rows:
    """Reads the columns that play a part, in one pass over the table; soft labels become rows with hard ones.

    Arguments:
        table: Anything `open_table` takes.
        roles: Which column plays which part; a missing one is refused with the nearest one that exists.
        since: Rows before this moment are left out.
        until: Rows at or after this moment are left out.
        unlabelled: Whether label columns may be absent, so that no task was observed.

    Example:
        >>> rows = read({"click": [0, 1], "pctr": [0.1, 0.5], "day": [1, 2]}, Roles.of(score="pctr", label="click"))
        >>> rows.scores["click"].tolist()
        [0.1, 0.5]
    """
    stream = open_table(table)
    roles.check_columns([*stream.column_names, *(roles.labels.values() if unlabelled else ())])
    columns = [name for name in roles.columns if name in stream.column_names]
    window = TimeWindow.of(stream.arrow_schema, roles.time, since, until)
    check_categories(stream.arrow_schema, roles.fields)
    texts = [*roles.category_columns, *([roles.group] if roles.group else [])]
    parts: dict[str, list[Any]] = {}
    kinds: set[Kind] = set()
    n_rows = 0
    with progress("reading", stream.n_rows) as bar:
        others = [name for name in texts if name not in roles.fields]
        for rows in stream.placed_batches(columns, dictionary_columns=list(dict.fromkeys(texts)), slices=others):
            for name in dict.fromkeys(name for name in (roles.time, roles.event_time) if name is not None):
                kinds |= kinds_of_moments(rows.column(name))
                check_one_kind(kinds, name)
            kept = rows if window is None else window.rows_of(rows)
            if kept.batch.num_rows:
                for name, column in _columns(kept, roles).items():
                    parts.setdefault(name, []).append(column)
                n_rows += kept.batch.num_rows
            bar.advance(rows.batch.num_rows)
    if not n_rows:
        raise InvalidInput.of(
            "table", "no rows", "at least one row", "check the file, and the window of time if there is one"
        )
    found = _rows(parts, roles, has_dates=bool(kinds) and "number" not in kinds)
    give_back_freed_memory()  # what batches left behind
    return found.with_hard_labels() if roles.soft_labels else found


def _columns(rows: RawRows, roles: Roles) -> dict[str, Any]:
    """One batch as arrays, by part and name."""
    found: dict[str, Any] = {}
    of_labels = soft_labels_or_missing if roles.soft_labels else labels_or_missing
    for task, name in roles.labels.items():
        has_column = name in rows.batch.schema.names
        found[f"label:{task}"] = (
            of_labels(rows, name, "label") if has_column else np.full(len(rows.numbers), -1, np.int8)
        )
    for task, name in roles.score_columns.items():
        found[f"score:{task}"] = numbers(rows, name, "score")
    for name in roles.category_columns:
        column = rows.column(name)
        found[f"field:{name}"] = coded(whole_numbers(column, name) if name in roles.fields else column)
    for name in roles.numeric:
        found[f"field:{name}"] = coded_numbers(numbers_or_nan(rows, name))
    if roles.group is not None:
        found["group"] = coded(rows.column(roles.group))
    if roles.time is not None:
        found["time"] = moments_of(rows, roles.time)
    if roles.event_time is not None and roles.label_time is not None:
        found["event time"] = moments_of(rows, roles.event_time)
        found["label time"] = moments_or_none(rows, roles.label_time)
    single = {"weight": roles.weight, "sampling rate": roles.rate_column}
    single["value"] = roles.value
    for part, chosen in single.items():
        if chosen is not None:
            found[part] = numbers(rows, chosen, part)
    return found


def _rows(parts: dict[str, list[Any]], roles: Roles, *, has_dates: bool) -> Rows:
    # columns are joined one after the other and their pieces let go, so that at most one of them is there twice
    def joined(name: str) -> NDArray[Any] | None:
        return np.concatenate(parts.pop(name)) if name in parts else None

    def by_task(part: str, tasks: Any) -> dict[str, Any]:
        return {task: joined(f"{part}:{task}") for task in tasks}

    return Rows(
        roles=roles,
        labels=by_task("label", roles.labels),
        scores=by_task("score", roles.score_columns),
        fields={name: join_coded(parts.pop(f"field:{name}")) for name in (*roles.category_columns, *roles.numeric)},
        groups=join_coded(parts.pop("group")).ids if "group" in parts else None,
        weights=joined("weight"),
        times=joined("time"),
        rates=roles.sampling_rate if isinstance(roles.sampling_rate, int | float) else joined("sampling rate"),
        values=joined("value"),
        event_times=joined("event time"),
        label_times=joined("label time"),
        has_dates=has_dates,
    )
