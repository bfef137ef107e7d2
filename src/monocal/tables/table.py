"""The rows of a table, each column checked for the part it plays: what fits and evaluations start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.dataset import ChosenIds, Dataset
from monocal.core.errors import InvalidInput, check_known
from monocal.core.fields import Ids
from monocal.core.process import progress, trim_heap
from monocal.core.reduce import Partition, Reducer
from monocal.core.scores import Floats, check_weights, cut_soft, has_soft, sampling_shift, sigmoid, to_logits
from monocal.tables.categories import EncodedColumn, check_categories, coded, coded_numbers, join_coded, whole_numbers
from monocal.tables.checks import doubts_about_fields, doubts_about_scores, warn_about, warn_about_moving
from monocal.tables.columns import (
    Kind,
    RawRows,
    TimeWindow,
    check_one_kind,
    kinds_of_moments,
    labels_or_missing,
    moments_of,
    numbers,
    numbers_or_nan,
)
from monocal.tables.late_labels import DelayCurve, LateLabels, mature
from monocal.tables.roles import Roles
from monocal.tables.source import TableLike, open_table
from monocal.tables.vocabulary import Vocabulary

_OF_ROWS = (
    "groups",
    "weights",
    "times",
    "rates",
    "values",
    "event_times",
    "label_times",
    "maturity",
    "units",
    "features",
)


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Columns by the part they play, all of one length; nothing here is ever changed.

    Rows that were encoded (`encoded`), or opened from a folder of ids (`monocal.tables.encoded`), have the ids of their
    model fields in `features`, which may be a memory map, and the values behind them in `vocabulary`.

    Attributes:
        roles: Which column of the table each of them was.
        labels: Task to 0, 1, or −1 where the task was not observed. Soft ones, while a table is read, lie between.
        scores: Task to the ranker's score as it came, in the space that the roles say.
        fields: Field or slice to the ids and values of its column.
        groups: One id per group.
        weights: How often each row counts; None means once.
        times: When each row happened; see `monocal.tables.columns.moments`.
        rates: Sampling rate of all rows or of each; None means 1.
        values: What one positive of each row is worth.
        event_times: When each row happened, where labels come late.
        label_times: When each positive label came; −1 where none has.
        maturity: The share of positives of each row's age whose label has come; None means all.
        late_labels: What is known about labels that may still come; None where none may.
        has_dates: The times are microseconds since 1970 and can be written as dates.
        units: The row of the table that each row is a part of, where soft labels were cut; None means each its own.
        features: Ids `(n, F)` of the model's fields, int32, 0 = unseen value; None before `encoded`.
        vocabulary: The values behind these ids.
        embeddings: The ranker's frozen table per field, of a scored log; None if there is none.
        parts: Part of a prepared log to its first row and the row after its last.
        identity: The fingerprint of the folder that all of them were opened from; empty for any other rows.

    Example:
        >>> log = {"click": [0, 1, None], "pctr": [0.1, 0.5, 0.2], "site": ["a", "b", "a"], "day": [3, 1, 2]}
        >>> rows = Table.read(log, Roles(score="pctr", label="click", fields=["site"], time="day"))
        >>> rows.n_rows, rows.labels["click"].tolist(), rows.fields["site"].ids.tolist()
        (3, [0, 1, -1], [0, 1, 0])
        >>> rows.in_time_order().scores["click"].tolist(), rows.observed("click").n_rows
        ([0.5, 0.2, 0.1], 2)
        >>> known = rows.encoded()
        >>> known.features[:, 0].tolist(), known.vocabulary["site"].values.to_pylist()
        ([1, 2, 1], ['a', 'b'])
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
    late_labels: LateLabels | None = None
    has_dates: bool = False
    units: NDArray[np.int64] | None = None
    features: Ids | None = None
    vocabulary: Vocabulary | None = None
    embeddings: tuple[NDArray[np.float32], ...] | None = None
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    identity: str = ""

    @classmethod
    def read(
        cls,
        table: TableLike,
        roles: Roles,
        *,
        since: str | None = None,
        until: str | None = None,
        delays: DelayCurve | None = None,
        unlabelled: bool = False,
    ) -> Table:
        """Reads the columns that play a part, in one pass; soft labels become rows with hard ones.

        Arguments:
            table: Anything `open_table` takes.
            roles: Which column plays which part; a missing one is refused with the nearest one that exists.
            since: Rows before this moment are left out.
            until: Rows at or after this moment are left out.
            delays: How long labels take, for rows that are too few or too young to show it themselves.
            unlabelled: Whether label columns may be absent, so that no task was observed.

        Example:
            >>> Table.read({"y": [0], "p": [0.1]}, Roles(score="p", label="y", event_time="ts", window="7d"))
            Traceback (most recent call last):
            ...
            monocal.core.errors.InvalidInput: label_time: got None; expected when a row happened, when its ...
        """
        is_late = roles.has_late_labels
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
        found = _joined(parts, roles, has_dates=bool(kinds) and "number" not in kinds)
        trim_heap()  # what batches left behind
        found = found.with_hard_labels() if roles.soft_labels else found
        return mature(found, delays) if is_late else found

    def __repr__(self) -> str:
        return f"Table of {self.n_rows:,} rows with {', '.join(self.roles.columns)}"

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.labels.values())))

    @property
    def field_names(self) -> tuple[str, ...]:
        """The model's fields, in the order of `features`."""
        return () if self.vocabulary is None else self.vocabulary.names

    @property
    def encoding(self) -> tuple[Ids, Vocabulary]:
        """The ids and the values behind them, for code that runs only after rows were encoded."""
        if self.features is None or self.vocabulary is None:
            raise InvalidInput.of("table", "rows without ids", "encoded rows", "call encoded() first")
        return self.features, self.vocabulary

    def take(self, rows: NDArray[Any] | slice) -> Table:
        """Returns the chosen rows; a slice makes views, not copies."""

        def of(column: Any) -> Any:
            return column if column is None or isinstance(column, float) else column[rows]

        return replace(
            self,
            labels={task: column[rows] for task, column in self.labels.items()},
            scores={task: column[rows] for task, column in self.scores.items()},
            fields={name: column.take(rows) for name, column in self.fields.items()},
            **{name: of(getattr(self, name)) for name in _OF_ROWS},
            parts={},
            identity="",
        )

    def part(self, name: str) -> Table:
        """Returns a named part of a prepared log, as views."""
        check_known("part", name, self.parts)
        return self.take(slice(*self.parts[name]))

    def with_fields(self, names: Iterable[str]) -> Table:
        """Returns the same rows with some of their fields only."""
        return replace(self, fields={name: self.fields[name] for name in dict.fromkeys(names)})

    def in_time_order(self) -> Table:
        """Returns the rows from the oldest to the newest; rows of one moment keep their order."""
        if self.times is None or bool(np.all(self.times[:-1] <= self.times[1:])):
            return self
        return self.take(np.argsort(self.times, kind="stable"))

    def observed(self, task: str) -> Table:
        """Returns the rows where a task's label is known."""
        known = self.labels[task] >= 0
        return self if bool(known.all()) else self.take(np.flatnonzero(known))

    def with_hard_labels(self) -> Table:
        """Returns the same rows with soft labels as weighted rows with hard ones, see `cut_soft`."""
        labels = np.column_stack([column.astype(np.float64) for column in self.labels.values()])
        if not has_soft(labels):
            return replace(self, labels={task: column.astype(np.int8) for task, column in self.labels.items()})
        pieces = cut_soft(labels)
        weights = pieces.shares if self.weights is None else pieces.shares * self.weights[pieces.rows]
        hard = {task: np.ascontiguousarray(pieces.labels[:, place]) for place, task in enumerate(self.labels)}
        return replace(self.take(pieces.rows), labels=hard, weights=weights, units=pieces.rows)

    def encoded(self, *, min_count: int = 1, max_size: int | None = None) -> Table:
        """Returns the rows with ids of the vocabulary that they give themselves, instead of their fields' columns.

        Rows that have ids stay as they are. Fields that seem to know the label, or to name rows, are warned about.

        Arguments:
            min_count: Field values with fewer rows count as unseen.
            max_size: The most values a field keeps; the most frequent stay.
        """
        if self.features is not None:
            return self
        columns = {name: self.fields[name] for name in self.roles.model_fields}
        numeric = self.roles.numeric
        vocabulary = Vocabulary.of_columns(columns, min_count=min_count, max_size=max_size, numeric=numeric)
        weights = None if self.weights is None else check_weights(self.weights, self.n_rows).astype(np.float32)
        features = vocabulary.encode_columns(columns, self.n_rows)
        known = replace(self, features=features, vocabulary=vocabulary, fields={}, weights=weights)
        warn_about(doubts_about_fields(known))
        return known

    def local(
        self, n_parts: int, reducer: Reducer, task: str | None = None, *, has_whole_log: bool = True
    ) -> tuple[Table, Partition]:
        """Returns the encoded rows of one member of a fit, and how they are cut; all of them if there is one part.

        Nothing that a fit has no use for is copied: ids of a part are read whenever they are looked at.

        Arguments:
            n_parts: Into how many parts the rows are cut.
            reducer: The members.
            task: Whose labels must be there; None for all rows.
            has_whole_log: Whether these are the rows of all members; else they are this member's own, in time order.
        """
        lean = replace(self, fields={}, groups=None)
        known = None if task is None else self.labels[task] >= 0
        if n_parts == 1 and reducer.size == 1:
            found = self if known is None or known.all() else lean.take(np.flatnonzero(known))
            return found, Partition.whole(found.n_rows)
        if has_whole_log:
            mine, partition = Partition.of_log(self.n_rows, n_parts, reducer)
        else:
            mine, order = np.arange(self.n_rows), np.zeros(self.n_rows, np.int64) if self.times is None else self.times
            partition = Partition(reducer, reducer.size, (reducer.rank,), np.array([0, self.n_rows]), order)
        if known is not None and not known[mine].all():
            mine, partition = mine[known[mine]], partition.take(known[mine])
        ids = ChosenIds.of(self.encoding[0], mine)
        return replace(replace(lean, features=None).take(mine), features=ids), partition

    def dataset(self, task: str, partition: Partition | None = None) -> Dataset:
        """Returns encoded rows of a task, whose labels are all there, as checked numbers that add themselves up.

        Example:
            >>> log = {"click": [0, 1], "pctr": [0.1, 0.5], "site": ["a", "b"]}
            >>> rows = Table.read(log, Roles(score="pctr", label="click", fields=["site"])).encoded()
            >>> data = rows.dataset("click")
            >>> data.z.round(3).tolist(), data.y.tolist(), data.ids.tolist()
            ([-2.197, 0.0], [0.0, 1.0], [[1], [2]])
        """
        return Dataset.of(
            self.scores[task],
            self.labels[task],
            features=self.features if self.field_names else None,
            weights=self.weights,
            times=self.times,
            scores_are=self.roles.scores_are,
            sampling_rate=self.rates,
            partition=partition,
        )

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


def _columns(rows: RawRows, roles: Roles) -> dict[str, Any]:
    """One batch as arrays, by the attribute of a table that they become, and by task or field."""
    found: dict[str, Any] = {}
    for task, name in roles.labels.items():
        has_column = name in rows.batch.schema.names
        unknown = np.full(len(rows.numbers), -1, np.int8)
        found[f"labels:{task}"] = labels_or_missing(rows, name, soft=roles.soft_labels) if has_column else unknown
    for task, name in roles.scores.items():
        found[f"scores:{task}"] = numbers(rows, name, "score")
    for name in roles.category_columns:
        column = rows.column(name)
        found[f"fields:{name}"] = coded(whole_numbers(column, name) if name in roles.fields else column)
    for name in roles.numeric:
        found[f"fields:{name}"] = coded_numbers(numbers_or_nan(rows.column(name), name, rows))
    if roles.group is not None:
        found["groups"] = coded(rows.column(roles.group))
    if roles.time is not None:
        found["times"] = moments_of(rows, roles.time)
    if roles.event_time is not None and roles.label_time is not None:
        found["event_times"] = moments_of(rows, roles.event_time)
        found["label_times"] = moments_of(rows, roles.label_time, may_be_missing=True)
    for attribute, part, chosen in (
        ("weights", "weight", roles.weight),
        ("rates", "sampling rate", roles.rate_column),
        ("values", "value", roles.value),
    ):
        if chosen is not None:
            found[attribute] = numbers(rows, chosen, part)
    return found


def _joined(parts: dict[str, list[Any]], roles: Roles, *, has_dates: bool) -> Table:
    rate = roles.sampling_rate if isinstance(roles.sampling_rate, int | float) else None
    found: dict[str, Any] = {"labels": {}, "scores": {}, "fields": {}, "rates": rate}
    # columns are joined one after the other and their pieces released, so that at most one of them is there twice
    for name in list(parts):
        attribute, _, key = name.partition(":")
        if attribute == "fields":
            found[attribute][key] = join_coded(parts.pop(name))
        elif attribute == "groups":
            found[attribute] = join_coded(parts.pop(name)).ids
        elif key:
            found[attribute][key] = np.concatenate(parts.pop(name))
        else:
            found[attribute] = np.concatenate(parts.pop(name))
    return Table(roles, has_dates=has_dates, **found)


_OF_TABLES = {
    "numeric": "a table; a prepared log holds categories",
    "label_time": "a table with scores, where labels may still come",
    "window": "a table with scores, where labels may still come",
}
"""What a prepared log has no columns for, and what has."""


def rows_of_fit(table: TableLike, columns: Mapping[str, Any]) -> Table:
    """Returns the rows of a fit in time order: those of a table with scores, or of a prepared log, which has ids.

    Arguments:
        table: A table, the folder of a prepared log, or an object of the laboratory that stands for one.
        columns: The roles of a table's columns, by name, as `Roles` takes them; a log knows its own.

    Example:
        >>> given = {"p": [0.1, 0.2], "y": [0, 1], "t": [2, 1]}
        >>> rows_of_fit(given, {"score": "p", "label": "y", "time": "t"}).scores["y"].tolist()
        [0.2, 0.1]
    """
    if isinstance(table, str | Path):
        from monocal.tables.encoded import is_encoded, open_encoded

        table = open_encoded(table) if is_encoded(table) else table
    elif hasattr(table, "as_table"):
        table = table.as_table()
    if isinstance(table, Table):
        for name, expected in _OF_TABLES.items():
            if columns.get(name):
                raise InvalidInput.of(name, "a prepared log", expected, "fit the table itself, in one process")
        return table
    roles = Roles(**columns)
    roles.check_scores()
    rows = Table.read(table, roles).in_time_order()
    warn_about(doubts_about_scores(rows))
    warn_about_moving(rows)
    return rows
