"""Reading what an evaluation needs from a table: labels, scores, calibrated probabilities, fields, groups, weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.progress import progress
from monocal.core.spaces import Floats, ScoreSpace
from monocal.models.model import Model
from monocal.tables.columns import labels_or_missing, moments_of, numbers
from monocal.tables.encoded_column import EncodedColumn, encode_values
from monocal.tables.stream import Table, TableStream, open_table
from monocal.tables.time_window import moment_of


class TaskColumns(NamedTuple):
    """Which columns a task is judged by."""

    label: str
    score: str


@final
@dataclass(frozen=True)
class RowColumns:
    """Which columns of a table play which part in an evaluation.

    Attributes:
        tasks: Task to its label and score columns.
        fields: Categorical columns.
        group: Users, queries or sessions.
        weight: How often a row counts.
        winners: 0/1 column of rows that were shown or won.
        time: Orders rows; needed for a window.
        value: What one positive of a row is worth, such as the bid.
        sampling_rate: Share of negatives the ranker was trained on: a number or a column.
        scores_are: The space of the scores.
    """

    tasks: Mapping[str, TaskColumns]
    fields: Sequence[str] = ()
    group: str | None = None
    weight: str | None = None
    winners: str | None = None
    time: str | None = None
    value: str | None = None
    sampling_rate: float | str | None = None
    scores_are: ScoreSpace = "probability"

    def roles(self) -> list[tuple[str, str]]:
        """Every column with the part it plays."""
        rate = self.sampling_rate if isinstance(self.sampling_rate, str) else None
        single = {
            "group": self.group,
            "weight": self.weight,
            "winners": self.winners,
            "time": self.time,
            "value": self.value,
            "sampling rate": rate,
        }
        return [
            *[("label", one.label) for one in self.tasks.values()],
            *[("score", one.score) for one in self.tasks.values()],
            *[("field", name) for name in self.fields],
            *[(role, column) for role, column in single.items() if column is not None],
        ]


@final
@dataclass(frozen=True, eq=False)
class TableRows:
    """Columns in memory, in the order of the table.

    Attributes:
        labels: Task to 0, 1, or −1 where the task was not observed.
        scores: Task to the ranker's score as it came.
        calibrated: Task to the model's probability; empty without a model.
        fields: Field to the ids and values of its column.
        groups: Ids of the groups.
        weights: How often each row counts.
        winners: Which rows were shown or won.
        times: When each row happened, as whole numbers.
        values: What one positive of each row is worth.
        rates: Sampling rate of all rows or of each.
        scores_are: The space of the scores.
    """

    labels: dict[str, NDArray[np.int8]]
    scores: dict[str, Floats]
    calibrated: dict[str, Floats]
    fields: dict[str, EncodedColumn]
    groups: NDArray[Any] | None
    weights: Floats | None
    winners: NDArray[np.bool_] | None
    times: NDArray[np.int64] | None
    values: Floats | None
    rates: Floats | float | None
    scores_are: ScoreSpace

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.labels.values())))

    def take(self, rows: NDArray[Any]) -> TableRows:
        """Returns the chosen rows."""

        def of(columns: Mapping[str, Any]) -> dict[str, Any]:
            return {name: column[rows] for name, column in columns.items()}

        return replace(
            self,
            labels=of(self.labels),
            scores=of(self.scores),
            calibrated=of(self.calibrated),
            fields={name: EncodedColumn(one.ids[rows], one.values) for name, one in self.fields.items()},
            groups=None if self.groups is None else self.groups[rows],
            weights=None if self.weights is None else self.weights[rows],
            winners=None if self.winners is None else self.winners[rows],
            times=None if self.times is None else self.times[rows],
            values=None if self.values is None else self.values[rows],
            rates=self.rates[rows] if isinstance(self.rates, np.ndarray) else self.rates,
        )


def read_rows(
    table: Table,
    columns: RowColumns,
    *,
    model: Model | None = None,
    since: str | None = None,
    until: str | None = None,
) -> TableRows:
    """Reads the columns that matter, batch by batch, and calibrates on the way if there is a model.

    Arguments:
        table: Anything `open_table` takes.
        columns: Which column plays which part.
        model: Its answers are added for every task.
        since: Rows before this moment are left out.
        until: Rows at or after this moment are left out.
    """
    stream = open_table(table)
    for role, column in columns.roles():
        stream.require([column], f"{role} column")
    if model is not None:
        model.check_columns(stream.column_names)
    window = _window(stream, columns.time, since, until)
    wanted = list(dict.fromkeys([column for _, column in columns.roles()] + (model.columns if model else [])))
    texts = [*columns.fields, *(model.field_names if model else ()), *([columns.group] if columns.group else [])]
    parts: dict[str, list[Any]] = {}
    with progress("reading" if model is None else "calibrating", stream.n_rows) as bar:
        for batch in stream.batches(wanted, dictionary_columns=list(dict.fromkeys(texts))):
            kept = batch if window is None else _in_window(batch, columns.time or "", *window)
            if kept.num_rows:
                _read_batch(kept, columns, model, parts)
            bar.advance(batch.num_rows)
    if not parts:
        raise InvalidInput.of("table", "no rows", "at least one row", "widen --since and --until, or check the file")
    return _join(parts, columns)


def _read_batch(batch: pa.RecordBatch, columns: RowColumns, model: Model | None, parts: dict[str, list[Any]]) -> None:
    def keep(name: str, column: Any) -> None:
        parts.setdefault(name, []).append(column)

    for name, one in columns.tasks.items():
        keep(f"label:{name}", labels_or_missing(batch, one.label, "label"))
        keep(f"score:{name}", numbers(batch, one.score, "score"))
    for name in columns.fields:
        keep(f"field:{name}", batch.column(name))
    if columns.group is not None:
        keep("group", batch.column(columns.group))
    if columns.time is not None:
        keep("time", moments_of(batch, columns.time))
    for role, column in (("weight", columns.weight), ("winners", columns.winners), ("value", columns.value)):
        if column is not None:
            keep(role, numbers(batch, column, role))
    if isinstance(columns.sampling_rate, str):
        keep("rate", numbers(batch, columns.sampling_rate, "sampling rate"))
    if model is not None:
        for name, answers in model.predict_batch(batch, tuple(columns.tasks)).items():
            keep(f"calibrated:{name}", answers)


def _join(parts: dict[str, list[Any]], columns: RowColumns) -> TableRows:
    def joined(kind: str) -> dict[str, Any]:
        return {
            name.split(":", 1)[1]: np.concatenate(chunks) for name, chunks in parts.items() if name.startswith(kind)
        }

    def one(name: str) -> Any:
        return np.concatenate(parts[name]) if name in parts else None

    def ids(name: str) -> EncodedColumn:
        column = pa.chunked_array(parts[name])
        return encode_values(column, len(column), name)

    winners = one("winners")
    rate = columns.sampling_rate
    return TableRows(
        labels=joined("label:"),
        scores=joined("score:"),
        calibrated=joined("calibrated:"),
        fields={name: ids(f"field:{name}") for name in columns.fields},
        groups=ids("group").ids if "group" in parts else None,
        weights=one("weight"),
        winners=None if winners is None else winners != 0.0,
        times=one("time"),
        values=one("value"),
        rates=one("rate") if isinstance(rate, str) else rate,
        scores_are=columns.scores_are,
    )


def _window(stream: TableStream, time: str | None, since: str | None, until: str | None) -> tuple[float, float] | None:
    if since is None and until is None:
        return None
    if time is None:
        raise InvalidInput.of(
            "time", None, "the column that since and until refer to", "name the time column, --time timestamp"
        )
    kind = stream.arrow_schema.field(time).type
    first = float("-inf") if since is None else moment_of(since, kind, "since")
    end = float("inf") if until is None else moment_of(until, kind, "until")
    return first, end


def _in_window(batch: pa.RecordBatch, time: str, first: float, end: float) -> pa.RecordBatch:
    at = moments_of(batch, time)
    return batch.filter(pa.array((at >= first) & (at < end)))
