"""Fields that are equal for all items of a list: the only ones that may bend a map which keeps the list's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.encoded_column import EncodedColumn
from monocal.tables.rows import Rows


def check_same_within(rows: Rows | EncodedLog) -> Rows | EncodedLog:
    """Refuses a field, or a sampling rate, that differs between items of one list.

    Two items of a list then meet the same increasing curve, and the one with the higher score stays above. The rows
    come back without the column, unless it is a field itself.

    Arguments:
        rows: The rows of a fit, with the role `keep_order_within`: which list a row is an item of.

    Example:
        >>> from monocal.core.roles import Roles
        >>> from monocal.tables.read import read
        >>> log = {"y": [0, 1], "p": [0.1, 0.2], "query": ["q1", "q1"], "item": ["a", "b"]}
        >>> rows = read(log, Roles.of(score="p", label="y", fields=["item"], keep_order_within="query"))
        >>> check_same_within(rows)
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: fields: got 'item', which differs within query = 'q1' ('a', 'b'); wanted ...
    """
    column = str(rows.roles.keep_order_within)
    lists, name_of = _lists(rows, column)
    for field, values, shown in _columns(rows):
        first = np.zeros(int(lists.max(initial=0)) + 1, dtype=values.dtype)
        first[lists[::-1]] = values[::-1]  # of several assignments the last one stays
        differs = np.flatnonzero(values != first[lists])
        if differs.size:
            row = int(differs[0])
            both = ", ".join(repr(shown(value)) for value in (first[lists[row]], values[row]))
            where = "sampling_rate" if field is None else "numeric" if field in rows.roles.numeric else "fields"
            raise InvalidInput.of(
                where,
                f"{'a rate' if field is None else repr(field)}, which differs within {column} = "
                f"{name_of(lists[row])!r} ({both})",
                "columns that are equal for all items of a list, so that its order is kept",
                "leave it out there, or keep_order_within= out of the fit",
            )
    return rows.with_fields(rows.roles.model_fields) if isinstance(rows, Rows) else rows


def _lists(rows: Rows | EncodedLog, column: str) -> tuple[NDArray[Any], Callable[[Any], Any]]:
    if isinstance(rows, Rows):
        found = rows.fields[column]
        return found.ids, _decoder(found)
    if column in rows.field_names:
        ids = np.asarray(rows.features[:, rows.field_names.index(column)])
        return ids, lambda number: f"id {number}"
    if rows.groups is None or column != rows.roles.group:
        known = [*rows.field_names, *([rows.roles.group] if rows.roles.group else [])]
        raise UnknownName.among("keep_order_within", column, known)
    return np.unique(np.asarray(rows.groups), return_inverse=True)[1], lambda number: f"list {number}"


def _decoder(column: EncodedColumn) -> Callable[[Any], Any]:
    return lambda number: column.decode(np.array([number]))[0]


def _columns(rows: Rows | EncodedLog) -> Iterator[tuple[str | None, NDArray[Any], Callable[[Any], Any]]]:
    if isinstance(rows, Rows):
        for name in rows.roles.model_fields:
            yield name, rows.fields[name].ids, _decoder(rows.fields[name])
        rates = rows.rates
    else:
        for place, name in enumerate(rows.field_names):
            yield name, np.asarray(rows.features[:, place]), lambda number: f"id {number}"
        rates = rows.sampling_rates
    if isinstance(rates, np.ndarray):
        yield None, rates, float
