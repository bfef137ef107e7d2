"""How rows that a model learned from are recognised, so that nobody evaluates it on them or teaches them twice."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.core.fields import Ids
from monocal.core.format import fingerprint
from monocal.core.reduce import BLOCK_ROWS, Local, Partition, Reducer
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

MOST_REMEMBERED = 400
"""Tables that a model remembers, the newest ones: a year of days and some."""

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def rows_fact(rows: Table, team: Reducer | None = None) -> dict[str, Any]:
    """Returns how many rows there are, a number that tells them from others in any order, and when they happened.

    Arguments:
        rows: The rows.
        team: Who has them together, each its own.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> table = {"click": [0, 1, 0], "pctr": [0.1, 0.5, 0.2], "day": [1, 2, 2]}
        >>> rows = Table.read(table, Roles(score="pctr", label="click", time="day"))
        >>> fact = rows_fact(rows)
        >>> fact["n_rows"], fact["first"], fact["last"]
        (3, 1, 2)
        >>> fact["rows"] == rows_fact(rows.take(np.array([2, 0, 1])))["rows"]
        True
    """
    team = team or Local()
    # numbers of members add up modulo 2⁶⁴, as integers do
    own = np.array([rows.n_rows, rows_number(rows)], dtype=np.uint64)
    n_rows, number = team.all_sum(own.view(np.int64)).view(np.uint64).tolist()
    fact = {"n_rows": n_rows, "rows": fingerprint(n_rows, number)}
    if rows.times is not None:
        ends = [-float(rows.times.min()), float(rows.times.max())] if rows.n_rows else [-np.inf, -np.inf]
        first, last = team.all_max(np.array(ends)) * [-1.0, 1.0]
        fact |= {"first": int(first), "last": int(last)}
    return fact


def rows_number(rows: Table) -> int:
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


def check_unseen(info: Mapping[str, Any], rows: Table, whose: str) -> None:
    """Refuses rows that a model learned from, as far as it remembers.

    Arguments:
        info: The model's `info`; one that was fitted before models remembered their rows refuses nothing.
        rows: The rows.
        whose: The model, in words.
    """
    fact = rows_fact(rows)
    learned = info.get("learned_from", ())
    if is_learned_from(info, fact):
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


def is_learned_from(info: Mapping[str, Any], fact: Mapping[str, Any]) -> bool:
    """Whether a model learned from exactly the rows with this fact, as far as it remembers."""
    return any(fact["rows"] == earlier["rows"] for earlier in info.get("learned_from", ()))


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


N_KEPT = 1024
"""Kept rows: of 300 judged rows of a fit on 40,000 about eight are among them; small beside everything else in a
model."""

_MOST_HELD = 1 << 20
_LEAST_CONTRAST = 0.1
_WORTH_A_WARNING = 0.1
_FEWEST_FOUND = 2
_STANDARD_ERRORS = 5.0
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def row_sample(
    rows: Table, features: Ids, earlier: Mapping[str, Any] | None = None, shards: Partition | None = None
) -> dict[str, Any]:
    r"""Returns the smallest numbers of rows that occur once: a random sample that does not depend on the rows' order.

    A row's number is made of its labels, scores and ids together. Of N rows, :math:`n_1` values of it occur once and
    :math:`n_2` twice; so a row of the fit is one of those that occur once with probability :math:`n_1/N`, and a new row
    looks like one of them with probability :math:`2 n_2/N` (Good and Turing). Where these are close (rounded scores and
    no fields) rows of the fit cannot be recognised, and nothing is added. Smallest numbers of two tables together are
    the smallest of both samples, so a model that learns more goes on with one sample. Of many rows only those with a
    number below some bound are held for that, about a million.

    Arguments:
        rows: The rows, with labels and scores.
        features: Their field ids `(n, F)`.
        earlier: The sample of rows that the model learned from before.
        shards: With whom the rows are looked at, each member at its own; all of them at once if not given.

    References:
        Good. The population frequencies of species and the estimation of population parameters. 1953.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> table = {"click": [0, 1, 0, 0], "pctr": [0.1, 0.5, 0.2, 0.1]}
        >>> rows = Table.read(table, Roles(score="pctr", label="click"))
        >>> found = row_sample(rows.take([0, 1, 2]), np.zeros((3, 0), np.int32))
        >>> len(found["marks"]), found["n_rows"], found["once"], found["twice"]
        (3, 3, 3, 0)
        >>> row_sample(rows, np.zeros((4, 0), np.int32), found) == found  # half of these rows look alike
        True
    """
    shards = shards or Partition.whole(rows.n_rows)
    n_rows = shards.n_rows(rows.n_rows)
    highest = np.uint64(min(2**64 - 1, 2**64 * _MOST_HELD // max(n_rows, 1)))
    held = []
    for _, part in shards.parts():
        own = [np.zeros(0, np.uint64)]
        for first in range(part.start, part.stop, BLOCK_ROWS):
            block = slice(first, min(first + BLOCK_ROWS, part.stop))
            numbers = _marks(rows.take(block), np.asarray(features[block]).T)
            own.append(numbers[numbers <= highest])
        held.append(np.concatenate(own))
    # as bits of doubles, which travel to all members as they are
    both = shards.gather([numbers.view(np.float64) for numbers in held]).view(np.uint64)
    marks, counts = np.unique(both, return_counts=True)
    once = marks[counts == 1][:N_KEPT]
    if once.size == N_KEPT:  # shares below the last kept number, where rows are compared: frequent rows weigh much
        marks, counts = marks[marks <= once[-1]], counts[marks <= once[-1]]
    counted = {"n_rows": int(counts.sum()), "once": once.size, "twice": int(np.sum(counts == 2))}
    known = earlier or {}
    if counted["once"] - 2 * counted["twice"] <= _LEAST_CONTRAST * counted["n_rows"]:
        return dict(known)
    kept = {*known.get("marks", ()), *(f"{mark:016x}" for mark in once.tolist())}
    return {"marks": sorted(kept)[:N_KEPT], **{key: known.get(key, 0) + count for key, count in counted.items()}}


def share_fitted(info: Mapping[str, Any], vocabulary: Vocabulary, rows: Table) -> float:
    """Returns about which share of rows a model was fitted on; NaN if too few of them can be compared.

    Exactly the rows of a fit are recognised by the fact of them together, however alike they look. Of other rows, the
    model knows all of its rows that occur once and whose number is not above the largest that it kept. Rows are random
    in that respect; so with f the share of known ones among those below, and the probabilities of `row_sample` for a
    row of the fit and a new one, the share is (f − new) / (fit − new); 0 if f is within five standard errors of what
    new rows would have.

    Arguments:
        info: The model's `info`.
        vocabulary: Its values and ids.
        rows: Rows with the model's scores and fields.
    """
    if rows.n_rows and is_learned_from(info, rows_fact(rows)):
        return 1.0
    sample = info.get("row_sample") or {}
    if not sample:
        return float("nan")
    kept = np.array([int(mark, 16) for mark in sample["marks"]], dtype=np.uint64)
    fields = ((vocabulary[name], rows.fields[name]) for name in vocabulary.names)
    marks = _marks(rows, (field.encode(column.known_values)[column.ids] for field, column in fields))
    comparable = marks if kept.size < N_KEPT else marks[marks <= kept.max()]
    found = np.isin(comparable, kept)
    if found.size < _FEWEST_FOUND:
        return float("nan")
    of_fit, of_new = sample["once"] / sample["n_rows"], 2 * sample["twice"] / sample["n_rows"]
    excess = float(found.mean()) - of_new
    # a count of n2 pairs is known to its square root
    variance = of_new * (1.0 - of_new) / found.size + 2.0 * of_new / sample["n_rows"]
    if excess <= _STANDARD_ERRORS * np.sqrt(variance):
        return 0.0
    return float(min(excess / (of_fit - of_new), 1.0))


def warn_about_fitted(info: Mapping[str, Any], vocabulary: Vocabulary, rows: Table) -> float:
    """Warns if a tenth or more of the rows that a model is evaluated on are rows that it was fitted on.

    Returns the share; NaN if it is not known.
    """
    share = share_fitted(info, vocabulary, rows)
    if share >= _WORTH_A_WARNING:
        warnings.warn(
            f"the model was fitted on about {share:.0%} of the rows that it is judged on, so that it looks better than "
            "it is. Hint: judge it on rows that came after those of its fit",
            MonocalWarning,
            stacklevel=3,
        )
    return share


def check_not_fitted(info: Mapping[str, Any], vocabulary: Vocabulary, rows: Table, whose: str) -> None:
    """Refuses rows of which a tenth or more are rows that a model was fitted on, by values of all columns together.

    Arguments:
        info: The model's `info`.
        vocabulary: Its values and ids.
        rows: Rows with the model's scores and fields.
        whose: The model, in words.
    """
    share = share_fitted(info, vocabulary, rows)
    if share >= _WORTH_A_WARNING:
        raise InvalidInput.of(
            "table",
            f"{rows.n_rows:,} rows, about {share:.0%} of which {whose} learned from",
            "rows it has not seen",
            "hand over newer rows",
        )


def _marks(rows: Table, columns: Iterable[NDArray[Any]]) -> NDArray[np.uint64]:
    """One number per row from its labels, scores and ids (a multiplicative hash, folded after every column)."""
    marks = np.zeros(rows.n_rows, dtype=np.uint64)
    parts = [part for task in sorted(rows.scores) for part in (rows.labels[task], rows.scores[task])]
    for part in (*parts, *columns):
        column = np.asarray(part)
        bits = column.astype(np.float64).view(np.uint64) if column.dtype.kind == "f" else column.astype(np.uint64)
        marks = (marks ^ bits) * _FACTOR
        marks ^= marks >> np.uint64(29)
    return marks
