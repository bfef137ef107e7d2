"""The rows of a table in memory, each column checked for the part it plays: what fits and evaluations start from."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.freed_memory import give_back_freed_memory
from monocal.core.progress import progress
from monocal.core.sampling import sampling_shift
from monocal.core.soft_labels import cut_soft, has_soft
from monocal.core.spaces import Floats, sigmoid, to_logits
from monocal.tables.categories import check_categories, whole_numbers
from monocal.tables.columns import (
    Kind,
    check_one_kind,
    kinds_of_moments,
    labels_or_missing,
    moments_of,
    moments_or_none,
    numbers,
    numbers_or_nan,
    soft_labels_or_missing,
)
from monocal.tables.problems import RawRows
from monocal.tables.roles import Roles
from monocal.tables.source import Table, open_table

IdColumn = NDArray[np.integer[Any]]

_ALWAYS_SMALL = 1 << 16


@final
@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """Ids of a column's values.

    Attributes:
        ids: One id ≥ 0 per row.
        values: The value behind each id; None when the ids are the values themselves.
    """

    ids: IdColumn
    values: Any | None

    def decode(self, ids: IdColumn) -> list[Any]:
        """Returns the values behind some ids; a missing value is None."""
        if self.values is None:
            return list(ids.tolist())
        known = self.values.to_pylist()
        return [known[number] for number in ids.tolist()]

    @property
    def known_values(self) -> Any:
        """The value behind each id, from 0 to the largest, as an Arrow array."""
        import pyarrow as pa

        return pa.array(np.arange(int(self.ids.max(initial=-1)) + 1)) if self.values is None else self.values

    def take(self, rows: Any) -> EncodedColumn:
        """Returns the chosen rows."""
        return EncodedColumn(self.ids[rows], self.values)


def encode_values(values: Any, n_rows: int, argument: str) -> EncodedColumn:
    """Numbers the values of a column: strings, integers, floats, dates, with or without missing ones.

    Integers that are already small and not negative are used as they are, without a copy.

    Arguments:
        values: A numpy array, list, pandas or polars series, or Arrow array.
        n_rows: How many rows it must have.
        argument: Its name in error messages.

    Example:
        >>> column = encode_values(["b", "a", "b"], 3, "site")
        >>> column.ids.tolist(), column.decode(np.array([0, 1]))
        ([0, 1, 0], ['b', 'a'])
    """
    plain = values if isinstance(values, np.ndarray) else None
    if plain is None and not hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__arrow_c_array__"):
        plain = np.asarray(values) if not isinstance(values, list) else _numbers_or_none(values)
    if plain is not None:
        if plain.ndim != 1:
            raise InvalidInput.of(argument, f"an array of shape {plain.shape}", "one value per row", "pass one column")
        _check_rows(plain.shape[0], n_rows, argument)
        if plain.dtype.kind == "b":
            return EncodedColumn(plain.astype(np.int8), None)
        if plain.dtype.kind in "iu" and _is_small(plain):
            return EncodedColumn(plain, None)
    return _by_arrow(values if plain is None else plain, n_rows, argument)


def _numbers_or_none(values: list[Any]) -> Any | None:
    integers = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return np.array(values) if values and integers and all(-(2**63) <= value < 2**63 for value in values) else None


def _is_small(column: Any) -> bool:
    if column.size == 0:
        return True
    return bool(column.min() >= 0 and column.max() < max(_ALWAYS_SMALL, 2 * column.shape[0]))


def _by_arrow(values: Any, n_rows: int, argument: str) -> EncodedColumn:
    import pyarrow as pa

    from monocal.tables.columns import plain_array

    try:
        if hasattr(values, "__arrow_c_stream__") and not isinstance(values, pa.Array | pa.ChunkedArray):
            values = pa.chunked_array(values)
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput.of(
            argument, f"values that are not one column ({error})", "values of one type", "turn them into strings first"
        ) from None
    _check_rows(len(column), n_rows, argument)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = plain_array(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    encoded = column.dictionary_encode(null_encoding="encode")
    return EncodedColumn(encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary)


def _check_rows(found: int, n_rows: int, argument: str) -> None:
    if found != n_rows:
        raise InvalidInput.of(
            argument, f"{found} rows", f"{n_rows} rows, as many as probabilities", "pass columns of the same table"
        )


def coded_numbers(values: Floats) -> pa.DictionaryArray:
    """Returns numbers as a dictionary of the distinct ones; NaN is a null."""
    return pa.array(values, from_pandas=True).dictionary_encode()


def coded(column: pa.Array) -> pa.DictionaryArray:
    """Returns a column as a dictionary of the values in these rows alone, in the order of the first row with each.

    Readers hand over the dictionary of a whole row group with every batch of it; text and integers come in several
    widths, which files of one log may mix.

    Example:
        >>> found = coded(pa.array(["b", None, "a", "b"]).dictionary_encode())
        >>> found.indices.to_pylist(), found.dictionary.to_pylist()
        ([0, None, 1, 0], ['b', 'a'])
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    common = _common_type(kind)
    if not pa.types.is_dictionary(column.type):
        return column.cast(common).dictionary_encode()
    n_values = len(column.dictionary)
    codes = pc.fill_null(column.indices.cast(pa.int64()), n_values).to_numpy(zero_copy_only=False)
    first = np.full(n_values + 1, len(codes), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    order = np.argsort(first[:n_values], kind="stable")[: int(np.count_nonzero(first[:n_values] < len(codes)))]
    values = column.dictionary.take(pa.array(order)).cast(common)
    if values.null_count or len(pc.unique(values)) < len(values):
        return column.dictionary_decode().cast(common).dictionary_encode()
    place = np.zeros(n_values + 1, dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    indices = pa.array(place[codes], mask=codes == n_values if column.null_count else None)
    return pa.DictionaryArray.from_arrays(indices, values)


def join_coded(chunks: list[pa.DictionaryArray]) -> EncodedColumn:
    """Returns chunks of `coded` as one column; ids are given by first row, and a null has the last one."""
    column = pa.chunked_array(chunks).unify_dictionaries()
    values = column.chunk(column.num_chunks - 1).dictionary
    indices = pa.chunked_array([chunk.indices for chunk in column.chunks])
    if indices.null_count:
        indices = pc.fill_null(indices, len(values))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return EncodedColumn(indices.to_numpy(), values)


def _common_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return pa.int64() if pa.types.is_integer(kind) and not pa.types.is_uint64(kind) else kind


class TimeWindow(NamedTuple):
    """Moments `first ≤ moment < end` of a time column."""

    column: str
    first: float
    end: float

    @classmethod
    def of(cls, schema: pa.Schema, time: str | None, since: str | None, until: str | None) -> TimeWindow | None:
        """Returns the window that two texts say, or None where neither is given."""
        if since is None and until is None:
            return None
        if time is None:
            raise InvalidInput.of(
                "time", None, "the column that since= and until= refer to", 'name the time column, time="timestamp"'
            )
        kind = schema.field(time).type
        first = -math.inf if since is None else moment_of(since, kind, "since")
        return cls(time, first, math.inf if until is None else moment_of(until, kind, "until"))

    def rows_of(self, rows: RawRows) -> RawRows:
        """Returns the rows that lie in the window."""
        at = moments_of(rows, self.column)
        return rows.keep((at >= self.first) & (at < self.end))


def moment_of(text: str, kind: pa.DataType, argument: str = "moment") -> int:
    """Returns a moment as the integer that a time column of this type is read as.

    Timestamps, dates and text are microseconds since 1970 (UTC); a column of numbers is compared with a number. Which
    of the two it is follows from the column, never from the value.

    Arguments:
        text: A date, a date and time, or a number.
        kind: The type of the time column.
        argument: What the moment is called in errors.

    Example:
        >>> moment_of("1970-01-02", pa.timestamp("s")), moment_of("86400", pa.int64())
        (86400000000, 86400)
        >>> moment_of("1970-01-02", pa.int64(), "since")
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: since: got '1970-01-02'; expected a number, as in the time column (int64). ...
    """
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            return int(float(text))
        except ValueError:
            raise InvalidInput.of(
                argument, repr(text), f"a number, as in the time column ({kind})", "write it in the column's unit"
            ) from None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput.of(argument, repr(text), "a date or time", "write 2024-05-01 or 2024-05-01T12:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)


_OPTIONAL = (
    "groups",
    "weights",
    "times",
    "rates",
    "values",
    "event_times",
    "label_times",
    "maturity",
    "units",
)


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Columns by the part they play, all of one length; nothing here is ever changed.

    Attributes:
        roles: Which column of the table each of them was.
        labels: Task to 0, 1, or −1 where the task was not observed. Soft ones, while a table is read, lie between.
        scores: Task to the ranker's score as it came, in the space that the roles say.
        fields: Field or slice to the ids and values of its column.
        groups: One id per group.
        weights: How often each row counts; None means once.
        times: When each row happened; see `monocal.tables.columns`.
        rates: Sampling rate of all rows or of each; None means 1.
        values: What one positive of each row is worth.
        event_times: When each row happened, where labels come late.
        label_times: When each positive label came; −1 where none has.
        maturity: The share of positives of each row's age whose label has come; None means all.
        has_dates: The times are microseconds since 1970 and can be told as dates.
        units: The row of the table that each row is a part of, where soft labels were cut; None means each its own.

    Example:
        >>> from monocal.tables.table import read
        >>> log = {"click": [0, 1, None], "pctr": [0.1, 0.5, 0.2], "site": ["a", "b", "a"], "day": [3, 1, 2]}
        >>> rows = read(log, Roles.of(score="pctr", label="click", fields=["site"], time="day"))
        >>> rows.n_rows, rows.labels["click"].tolist(), rows.fields["site"].ids.tolist()
        (3, [0, 1, -1], [0, 1, 0])
        >>> rows.in_time_order().scores["click"].tolist(), rows.observed("click").n_rows
        ([0.5, 0.2, 0.1], 2)
    """

    roles: Roles
    labels: Mapping[str, NDArray[np.int8]]
    scores: Mapping[str, Floats]
    fields: Mapping[str, EncodedColumn] = field(default_factory=dict)
    groups: NDArray[Any] | None = None
    weights: NDArray[np.floating[Any]] | None = None
    times: NDArray[np.int64] | None = None
    rates: Floats | float | None = None
    values: Floats | None = None
    event_times: NDArray[np.int64] | None = None
    label_times: NDArray[np.int64] | None = None
    maturity: Floats | None = None
    has_dates: bool = False
    units: NDArray[np.int64] | None = None

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.labels.values())))

    def take(self, rows: NDArray[Any] | slice) -> Rows:
        """Returns the chosen rows; a slice makes views, not copies."""

        def of(column: Any) -> Any:
            return column[rows] if isinstance(column, np.ndarray) else column

        return replace(
            self,
            labels={task: column[rows] for task, column in self.labels.items()},
            scores={task: column[rows] for task, column in self.scores.items()},
            fields={name: column.take(rows) for name, column in self.fields.items()},
            **{name: of(getattr(self, name)) for name in _OPTIONAL},
        )

    def with_fields(self, names: Iterable[str]) -> Rows:
        """Returns the same rows with some of their fields only."""
        return replace(self, fields={name: self.fields[name] for name in dict.fromkeys(names)})

    def in_time_order(self) -> Rows:
        """Returns the rows from the oldest to the newest; rows of one moment keep their order."""
        if self.times is None or bool(np.all(self.times[:-1] <= self.times[1:])):
            return self
        return self.take(np.argsort(self.times, kind="stable"))

    def observed(self, task: str) -> Rows:
        """Returns the rows where a task's label is known."""
        known = self.labels[task] >= 0
        return self if bool(known.all()) else self.take(np.flatnonzero(known))

    def with_hard_labels(self) -> Rows:
        """Returns the same rows with soft labels as weighted rows with hard ones, see `cut_soft`."""
        labels = np.column_stack([column.astype(np.float64) for column in self.labels.values()])
        if not has_soft(labels):
            return replace(self, labels={task: column.astype(np.int8) for task, column in self.labels.items()})
        pieces = cut_soft(labels)
        weights = pieces.shares if self.weights is None else pieces.shares * self.weights[pieces.rows]
        hard = {task: np.ascontiguousarray(pieces.labels[:, place]) for place, task in enumerate(self.labels)}
        return replace(self.take(pieces.rows), labels=hard, weights=weights, units=pieces.rows)

    @property
    def observations(self) -> NDArray[Any] | None:
        """Ids of rows that are one observation together: the groups, else the pieces of one row; None if all are."""
        return self.units if self.groups is None else self.groups

    @property
    def n_table_rows(self) -> int:
        """How many rows of the table these are."""
        return self.n_rows if self.units is None else int(np.unique(self.units).size)

    def logits(self, task: str) -> Floats:
        """Returns a task's scores as logits, brought back to full traffic by the sampling rate."""
        return to_logits(self.scores[task], self.roles.scores_are) + sampling_shift(self.rates, self.n_rows)

    def arrived(self, probabilities: Floats) -> Floats:
        """Returns the probability that a positive label is there by now."""
        return probabilities if self.maturity is None else probabilities * self.maturity

    def uncalibrated(self, task: str) -> Floats:
        """Returns the same as probabilities: what the forecast is without a calibrator."""
        return sigmoid(self.logits(task))


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
