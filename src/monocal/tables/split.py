"""Keeping the most recent rows out of a fit, and forgetting what the fit could not have known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.tables.categories import EncodedColumn
from monocal.tables.columns import numbers_or_nan
from monocal.tables.table import Table
from monocal.tables.value_index import most_frequent
from monocal.tables.vocabulary import FieldVocabulary, NumericField, Vocabulary

DEFAULT_SHARE = 0.2


@final
@dataclass(frozen=True)
class Holdout:
    """Where rows in time order were cut.

    Attributes:
        n_fit: Rows before the cut: they are fitted.
        n_test: Rows after it: they judge.
        explanation: How it was done, in one sentence.
    """

    n_fit: int
    n_test: int
    explanation: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def hold_out_recent(
    n_rows: int,
    share: float = DEFAULT_SHARE,
    *,
    times: NDArray[np.int64] | None = None,
    time_column: str | None = None,
    is_clock: bool = False,
) -> Holdout:
    """Cuts off the most recent share of rows; rows of one moment are never torn apart.

    Arguments:
        n_rows: How many rows there are, in time order.
        share: The share that is held out.
        times: When each row happened, rising; None takes the rows' order for time.
        time_column: Its name, for the explanation.
        is_clock: The times are microseconds since 1970 and can be shown as dates.

    Example:
        >>> hold_out_recent(10, 0.2, times=np.array([1, 1, 1, 2, 2, 2, 3, 3, 3, 3]), time_column="day")
        Holdout(n_fit=6, n_test=4,
                explanation='split by time: fitted on 6 rows with day 1 to 2, held out the 4 rows from 3 on')
    """
    if not 0.0 < share < 1.0:
        raise InvalidInput.of("holdout", share, "a share in (0, 1)", "use 0.2 for the most recent fifth")
    if n_rows < 2:
        raise InvalidInput.of("table", f"{n_rows} rows", "rows to fit and rows to judge", "hand over more rows")
    cut = min(max(n_rows - round(n_rows * share), 1), n_rows - 1)
    if times is None:
        return Holdout(
            cut,
            n_rows - cut,
            f"split by row order, taken as time order: fitted on the first {cut:,} rows, "
            f"held out the last {n_rows - cut:,}",
        )
    cut = _between_moments(times, cut)
    first, last, then = (_tell(int(moment), is_clock) for moment in (times[0], times[cut - 1], times[cut]))
    return Holdout(
        cut,
        n_rows - cut,
        f"split by time: fitted on {cut:,} rows with {time_column or 'time'} {first} to {last}, "
        f"held out the {n_rows - cut:,} rows from {then} on",
    )


def _between_moments(times: NDArray[np.int64], cut: int) -> int:
    earlier = int(np.searchsorted(times, times[cut], side="left"))
    if earlier > 0:
        return earlier
    later = int(np.searchsorted(times, times[cut], side="right"))
    return later if later < len(times) else cut


def _tell(moment: int, is_clock: bool) -> str:
    if not is_clock:
        return str(moment)
    return str(np.datetime64(moment, "us").astype("datetime64[s]")).replace("T", " ")


@final
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows in time order, cut into those to fit and those to judge.

    Attributes:
        fit: Rows to fit, encoded with the values they have themselves.
        test: The held-out rows, with each of their values as one of its own; of a prepared log, with its ids as values.
        features: Field ids of the held-out rows in the encoding of `fit`: what a model fitted on it would see.
        holdout: How the rows were cut.
        all_rows: Returns both together, with the values of both, for a model that is fitted again after judging; None
            if they were not kept.
    """

    fit: Table
    test: Table
    features: Ids
    holdout: Holdout
    all_rows: Callable[[], Table] | None

    @property
    def shown(self) -> Table:
        """The held-out rows as they are judged: numeric fields as intervals between the knots of the fit."""
        return self.test if self.test.features is not None else binned(self.test, self.fit.encoding[1])


def hold_out(
    rows: Table,
    share: float = DEFAULT_SHARE,
    *,
    min_count: int = 1,
    max_size: int | None = None,
    keep_all: bool = False,
) -> HeldOut:
    """Cuts off the most recent rows.

    A log that was prepared with parts is cut into them; any other rows by their most recent share.

    Arguments:
        rows: Rows in time order.
        share: The share that is held out.
        min_count: Field values with fewer rows count as unseen.
        max_size: The most values a field may have; rarer ones count as unseen.
        keep_all: Whether `all_rows` will be asked for. Without it the result does not hold on to rows that were read,
            whose ids would otherwise be in memory twice during a fit.
    """
    limits = {"min_count": min_count, "max_size": max_size}
    if {"calibration", "test"} <= set(rows.parts):
        return _cut_by_parts(rows)
    if rows.features is not None:
        return _cut_ids(rows, share, limits)
    return _cut_rows(rows.in_time_order(), share, limits, keep_all)


def _cut_rows(rows: Table, share: float, limits: dict[str, Any], keep_all: bool) -> HeldOut:
    # the pieces of a row with a soft label stay together
    units = np.arange(rows.n_rows) if rows.units is None else rows.units
    firsts = np.flatnonzero(np.diff(units, prepend=-1))
    times = None if rows.times is None else rows.times[firsts]
    cut = hold_out_recent(firsts.size, share, times=times, time_column=rows.roles.time, is_clock=rows.has_dates)
    first_test = int(firsts[cut.n_fit])
    fitted = rows.take(slice(0, first_test)).encoded(**limits)
    # a slice would be a view, and hold on to all rows
    test = rows.take(slice(first_test, None) if keep_all else np.arange(first_test, rows.n_rows))
    _, vocabulary = fitted.encoding
    features = vocabulary.encode_columns(test.fields, test.n_rows)
    again = (lambda: rows.encoded(**limits)) if keep_all else None
    return HeldOut(fitted, test, features, cut, again)


def _cut_by_parts(rows: Table) -> HeldOut:
    fitted, test = rows.part("calibration"), rows.part("test")
    explanation = (
        f"the log's own parts: fitted on the {fitted.n_rows:,} rows of 'calibration', "
        f"held out the {test.n_rows:,} rows of 'test'"
    )
    both = slice(rows.parts["calibration"][0], rows.parts["test"][1])
    cut = Holdout(fitted.n_rows, test.n_rows, explanation)
    return HeldOut(fitted, with_id_columns(test), test.encoding[0], cut, lambda: rows.take(both))


def _cut_ids(rows: Table, share: float, limits: dict[str, Any]) -> HeldOut:
    cut = hold_out_recent(rows.n_rows, share, times=rows.times, time_column=rows.roles.time)
    known = keep_values_of(rows, 0, cut.n_fit, **limits)
    test = slice(cut.n_fit, None)
    return HeldOut(
        known.take(slice(0, cut.n_fit)),
        with_id_columns(rows.take(test)),
        known.encoding[0][test],
        cut,
        lambda: keep_values_of(rows, 0, rows.n_rows, **limits),
    )


def with_id_columns(rows: Table) -> Table:
    """Returns encoded rows whose fields have their ids as values."""
    features, _ = rows.encoding
    columns = {name: EncodedColumn(features[:, place], None) for place, name in enumerate(rows.field_names)}
    return replace(rows, fields=columns)


def keep_values_of(rows: Table, start: int, stop: int, *, min_count: int = 1, max_size: int | None = None) -> Table:
    """Returns encoded rows with the vocabulary that the rows `start ≤ row < stop` alone would have given.

    Values that only other rows have become unseen (id 0), as they would be for a model fitted on those rows. Without
    this step a held-out part would count as known what nobody could know.

    Arguments:
        rows: All rows, encoded with all values.
        start: First row that counts.
        stop: Row after the last one that counts.
        min_count: Values with fewer of those rows become unseen.
        max_size: The most values a field keeps; the most frequent stay.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> table = {"y": [0, 1, 0, 0], "p": [0.1] * 4, "site": ["a", "b", "b", "c"]}
        >>> known = keep_values_of(Table.read(table, Roles(score="p", label="y", fields=["site"])).encoded(), 0, 3)
        >>> known.vocabulary["site"].values.to_pylist(), known.features[:, 0].tolist()
        (['b', 'a'], [2, 1, 1, 0])
    """
    known_ids, vocabulary = rows.encoding
    features = np.empty_like(known_ids)
    fields: list[FieldVocabulary | NumericField] = []
    for index, field in enumerate(vocabulary.fields):
        column = known_ids[:, index]
        if isinstance(field, NumericField) or field.n_buckets is not None:
            fields.append(field)
            features[:, index] = column
            continue
        counts = np.bincount(column[start:stop], minlength=field.size)[1:]
        known = replace(field, values=most_frequent(field.values, counts, min_count=min_count, max_size=max_size))
        features[:, index] = np.append(np.int32(0), known.encode(field.values))[column]
        fields.append(known)
    return replace(rows, features=features, vocabulary=Vocabulary(tuple(fields)), identity="")


MOST_BINS = 10


def binned(rows: Table, vocabulary: Vocabulary) -> Table:
    """Returns the rows with every field of numbers as intervals between some of its knots; a null stays a null.

    Rows of two tables have the same intervals, because they are the model's.

    Example:
        >>> from monocal.tables.roles import Roles
        >>> from monocal.tables.table import Table
        >>> rows = Table.read({"y": [0, 1, 0], "p": [1.0, 2.5, None]}, Roles(label="y", numeric=["p"]))
        >>> shown = binned(rows, Vocabulary((NumericField("p", (1.0, 2.0, 3.0)),))).fields["p"]
        >>> shown.decode(shown.ids)
        ['below 2', '2 to 3', None]
    """
    fields = dict(rows.fields)
    for name in vocabulary.numeric_names:
        field = vocabulary[name]
        if name in fields and isinstance(field, NumericField):
            fields[name] = _intervals(field, fields[name])
    return replace(rows, fields=fields)


def _intervals(field: NumericField, column: EncodedColumn) -> EncodedColumn:
    inner = np.array(field.knots[1:], dtype=np.float64)
    if len(inner) >= MOST_BINS:
        inner = inner[np.linspace(0, len(inner) - 1, MOST_BINS - 1).round().astype(np.int64)]
    texts = [f"{edge:.6g}" for edge in inner]
    names = [f"below {texts[0]}", *(f"{a} to {b}" for a, b in pairwise(texts))] if texts else []
    names.append(f"from {texts[-1]}" if texts else "any number")
    numbers = numbers_or_nan(column.known_values, field.name)
    place = np.where(np.isnan(numbers), len(names), np.searchsorted(inner, numbers, side="right"))
    return EncodedColumn(place[column.ids], pa.array([*names, None], pa.string()))
