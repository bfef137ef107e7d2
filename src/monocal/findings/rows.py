"""The rows of a report: labels, the score before, the probability after, and everything rows are sliced by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.fingerprint import fingerprint
from monocal.core.roles import Roles
from monocal.core.samples import Ids
from monocal.core.spaces import Floats, sigmoid
from monocal.models.model import Model
from monocal.tables.encoded_column import EncodedColumn
from monocal.tables.read import read
from monocal.tables.rows import Rows
from monocal.tables.stream import Table, open_table
from monocal.vocabulary.vocabulary import FieldVocabulary

_CONTEXTS = 2048


@final
@dataclass(frozen=True, eq=False)
class FieldColumn:
    """One field of the rows at hand; id k is its k-th most frequent value, counted from 0."""

    name: str
    ids: Ids
    values: tuple[str, ...]
    unseen_share: float
    """Share of rows whose value the model had never met; NaN if the model does not know the field."""

    @property
    def n_values(self) -> int:
        return len(self.values)


@final
@dataclass(frozen=True, eq=False)
class TaskRows:
    """The observed rows of one task.

    Attributes:
        task: The task's name.
        labels: 0.0 or 1.0.
        logits: The ranker's score after the sampling correction.
        before: The same as a probability: what the forecast was without the calibrator.
        after: The calibrated probability.
        fields: The fields, in order.
        weights: How often each row counts; None means once.
        times: Moments as whole numbers; None when no time column was named.
        values: What one positive of the row is worth; None when no value column was named.
        groups: Group ids; None when no group column was named.
        contexts: Field ids in the *model's* numbering of a sample of rows, for the learned curves.
    """

    task: str
    labels: Floats
    logits: Floats
    before: Floats
    after: Floats
    fields: tuple[FieldColumn, ...] = ()
    weights: Floats | None = None
    times: NDArray[np.int64] | None = None
    values: Floats | None = None
    groups: NDArray[Any] | None = None
    contexts: Ids | None = None

    @property
    def n_rows(self) -> int:
        return int(self.labels.shape[0])

    @property
    def n_positive(self) -> float:
        return float(self.labels.sum() if self.weights is None else np.sum(self.labels * self.weights))

    @property
    def total_weight(self) -> float:
        return float(self.n_rows if self.weights is None else self.weights.sum())


@final
@dataclass(frozen=True, eq=False)
class LogRows:
    """What was read: the rows of every task and a fingerprint of all of it."""

    tasks: tuple[TaskRows, ...]
    n_rows: int
    time_is_calendar: bool
    fingerprint: str


def read_log(
    model: Model,
    table: Table,
    roles: Roles,
    sliced: tuple[str, ...],
    *,
    since: str | None = None,
    until: str | None = None,
) -> LogRows:
    """Reads a table and calibrates it.

    Arguments:
        model: The model.
        table: The table.
        roles: Which column plays which part; its fields are the model's, its slices those to slice by.
        sliced: The fields to slice by.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
    """
    stream = open_table(table)
    model.check_columns(stream.column_names)
    rows = read(stream, roles, since=since, until=until)
    calibrated = model.predict_rows(rows)
    model_ids = {name: _model_ids(rows.fields[name], model.vocabulary[name]) for name in model.field_names}
    fields = tuple(_by_frequency(name, rows.fields[name], model_ids.get(name)) for name in sliced)
    contexts = _contexts([model_ids[name] for name in model.field_names], rows.n_rows)
    return LogRows(
        tuple(_task(rows, calibrated[name], name, fields, contexts) for name in roles.tasks),
        rows.n_rows,
        rows.has_dates,
        _fingerprint(rows, fields),
    )


def _task(rows: Rows, calibrated: Floats, name: str, fields: tuple[FieldColumn, ...], contexts: Ids) -> TaskRows:
    labels = rows.labels[name]
    observed: Any = slice(None) if np.all(labels >= 0) else np.flatnonzero(labels >= 0)
    kept = labels[observed].astype(np.float64)
    if not kept.size:
        raise InvalidInput.of(
            f"label of {name!r}", "only nulls", "at least one observed label", "check the label column"
        )
    logits = rows.observed(name).logits(name)

    def of(column: Any) -> Any:
        return None if column is None else column[observed]

    return TaskRows(
        task=name,
        labels=kept,
        logits=logits,
        before=sigmoid(logits),
        after=calibrated[observed],
        fields=tuple(FieldColumn(one.name, one.ids[observed], one.values, one.unseen_share) for one in fields),
        weights=of(rows.weights),
        times=of(rows.times),
        values=of(rows.values),
        groups=of(rows.groups),
        contexts=contexts,
    )


def _by_frequency(name: str, column: EncodedColumn, model_ids: Ids | None) -> FieldColumn:
    counts = np.bincount(column.ids)
    order = np.argsort(-counts, kind="stable")[: int(np.count_nonzero(counts))]
    place = np.zeros(counts.shape[0], dtype=np.int32)
    place[order] = np.arange(order.shape[0], dtype=np.int32)
    values = tuple("(missing)" if value is None else str(value) for value in column.decode(order))
    unseen = float("nan") if model_ids is None else float(np.mean(model_ids == 0))
    return FieldColumn(name, place[column.ids], values, unseen)


def _model_ids(column: EncodedColumn, vocabulary: FieldVocabulary) -> Ids:
    ids: Ids = vocabulary.encode(column.known_values)[column.ids]
    return ids


def _contexts(columns: list[Ids], n_rows: int) -> Ids:
    if not columns:
        return np.zeros((1, 0), dtype=np.int32)
    spread = np.unique(np.linspace(0, n_rows - 1, _CONTEXTS).astype(np.int64))
    return np.unique(np.stack([column[spread] for column in columns], axis=1), axis=0)


def _fingerprint(rows: Rows, fields: tuple[FieldColumn, ...]) -> str:
    columns: Mapping[str, Any] = {
        **{f"label {name}": column for name, column in rows.labels.items()},
        **{f"score {name}": column for name, column in rows.scores.items()},
        **{f"field {one.name}": one.ids for one in fields},
        **{f"values {one.name}": list(one.values) for one in fields},
        "weights": rows.weights,
        "times": rows.times,
        "value": rows.values,
        "groups": rows.groups,
    }
    return fingerprint(*[part for name, column in columns.items() for part in (name, column)])
