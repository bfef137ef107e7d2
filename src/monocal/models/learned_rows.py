"""What a model remembers of the rows it learned from, so that nobody judges it on them or teaches them twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.fingerprint import fingerprint
from monocal.core.team import BLOCK_ROWS, Alone, Team
from monocal.tables.rows import Rows

MOST_REMEMBERED = 400
"""Tables that a model remembers, the newest ones: a year of days and some."""

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def rows_fact(rows: Rows, team: Team | None = None) -> dict[str, Any]:
    """Returns how many rows there are, a number that tells them from others in any order, and when they happened.

    Arguments:
        rows: The rows.
        team: Who has them together, each its own.

    Example:
        >>> from monocal.core.roles import Roles
        >>> from monocal.tables.read import read
        >>> table = {"click": [0, 1, 0], "pctr": [0.1, 0.5, 0.2], "day": [1, 2, 2]}
        >>> rows = read(table, Roles.of(score="pctr", label="click", time="day"))
        >>> fact = rows_fact(rows)
        >>> fact["n_rows"], fact["first"], fact["last"]
        (3, 1, 2)
        >>> fact["rows"] == rows_fact(rows.take(np.array([2, 0, 1])))["rows"]
        True
    """
    team = team or Alone()
    # numbers of members add up modulo 2⁶⁴, as integers do
    own = np.array([rows.n_rows, rows_number(rows)], dtype=np.uint64)
    n_rows, number = team.count(own.view(np.int64)).view(np.uint64).tolist()
    fact = {"n_rows": n_rows, "rows": fingerprint(n_rows, number)}
    if rows.times is not None:
        ends = [-float(rows.times.min()), float(rows.times.max())] if rows.n_rows else [-np.inf, -np.inf]
        first, last = team.most(np.array(ends)) * [-1.0, 1.0]
        fact |= {"first": int(first), "last": int(last)}
    return fact


def rows_number(rows: Rows) -> int:
    """Returns the number behind the fact: those of two sets of rows add up, modulo 2⁶⁴, to that of both together."""
    number = 0
    for first in range(0, rows.n_rows, BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        total: Any = np.uint64(0)
        for task in rows.scores:
            label = rows.labels[task][block].astype(np.int64).view(np.uint64)
            score = np.asarray(rows.scores[task][block], dtype=np.float32).view(np.uint32).astype(np.uint64)
            total = _mixed(total + (score << np.uint64(2)) + label)
        number += int(total.sum(dtype=np.uint64))
    return number % 2**64


def time_of_fit(info: Mapping[str, Any], available: Sequence[str]) -> str | None:
    """Returns the column that ordered the rows of the fit, if there was one and it is there."""
    known = info.get("time_column")
    return known if known in available else None


def check_unseen(info: Mapping[str, Any], rows: Rows, whose: str) -> None:
    """Refuses rows that a model learned from, as far as it remembers.

    Arguments:
        info: The model's `info`; one that was fitted before models remembered their rows refuses nothing.
        rows: The rows.
        whose: The model, in words.
    """
    fact = rows_fact(rows)
    learned = info.get("learned_from", ())
    if any(fact["rows"] == earlier["rows"] for earlier in learned):
        raise InvalidInput.of(
            "table", f"{rows.n_rows:,} rows that {whose} learned from", "rows it has not seen", "hand over newer rows"
        )
    lasts = [earlier["last"] for earlier in learned if "last" in earlier]
    if rows.times is None or not lasts or rows.roles.time != info.get("time_column"):
        return
    n_older = int(np.sum(rows.times <= max(lasts)))
    if n_older:
        raise InvalidInput.of(
            f"column {rows.roles.time!r}",
            f"{n_older:,} of {rows.n_rows:,} rows not later than the last one that {whose} learned from "
            f"({shown_moment(max(lasts), has_dates=rows.has_dates)})",
            "later rows only",
            "leave out the older rows with since=",
        )


def shown_moment(moment: int, *, has_dates: bool) -> str:
    """Returns a moment as rows hold it as text.

    Example:
        >>> shown_moment(1_767_225_600_000_000, has_dates=True), shown_moment(41, has_dates=False)
        ('2026-01-01T00:00:00', '41')
    """
    return str(np.datetime64(moment, "us").astype("datetime64[s]")) if has_dates else str(moment)


def _mixed(numbers: Any) -> Any:
    """Spreads every number over all 64 bits (the finaliser of splitmix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
    return numbers ^ (numbers >> np.uint64(31))
