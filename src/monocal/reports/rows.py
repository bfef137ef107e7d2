"""The observed rows of one task with both forecasts, before and after calibration: what every section starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.fields import Ids
from monocal.core.scores import Floats, sigmoid
from monocal.evaluation.cells import Cells, dispersion_of, sum_cells
from monocal.tables.categories import EncodedColumn, IdColumn
from monocal.tables.table import Table
from monocal.tables.vocabulary import Vocabulary

Side = Literal["before", "after"]
SIDES: tuple[Side, Side] = ("before", "after")
T = TypeVar("T")
R = TypeVar("R")
N_CONTEXTS = 2048


@final
@dataclass(frozen=True)
class BeforeAfter(Generic[T]):
    """A pair: what holds for the uncalibrated forecast, and what holds for the calibrated one.

    Example:
        >>> rate = BeforeAfter(0.12, 0.1)
        >>> rate["after"], rate.map(lambda share: 100 * share).before, dict(rate.items())
        (0.1, 12.0, {'before': 0.12, 'after': 0.1})
    """

    before: T
    after: T

    def __getitem__(self, side: Side) -> T:
        return self.before if side == "before" else self.after

    def __iter__(self) -> Iterator[T]:
        return iter((self.before, self.after))

    def items(self) -> Iterator[tuple[Side, T]]:
        """Yields both with their side."""
        yield "before", self.before
        yield "after", self.after

    def map(self, function: Callable[[T], R]) -> BeforeAfter[R]:
        """Applies a function to both."""
        return BeforeAfter(function(self.before), function(self.after))


@final
@dataclass(frozen=True, eq=False)
class FieldColumn:
    """One field of the rows at hand.

    Attributes:
        name: The field.
        ids: Its value in each row; id k is the k-th most frequent one, counted from 0.
        values: The values as text, by id.
        unseen_share: Share of rows whose value was not in the fit; NaN if the model does not know the field.
    """

    name: str
    ids: Ids
    values: tuple[str, ...]
    unseen_share: float

    @property
    def n_values(self) -> int:
        return len(self.values)


@final
@dataclass(frozen=True, eq=False)
class TaskRows:
    """The observed rows of one task.

    Attributes:
        labels: 0.0 or 1.0.
        logits: The ranker's score after the sampling correction.
        forecasts: The same as a probability, and the calibrated probability; of labels that have arrived by now.
        fields: The fields, in order.
        weights: How often each row counts; None means once.
        times: Moments as whole numbers; None when no time column was named.
        values: What one positive of the row is worth; None when no value column was named.
        groups: Group ids; None when no group column was named.
        has_dates: The times are microseconds since 1970.
    """

    labels: Floats
    logits: Floats
    forecasts: BeforeAfter[Floats]
    fields: tuple[FieldColumn, ...] = ()
    weights: Floats | None = None
    times: NDArray[np.int64] | None = None
    values: Floats | None = None
    groups: IdColumn | None = None
    has_dates: bool = False

    @classmethod
    def of(cls, rows: Table, task: str, calibrated: Floats, fields: Sequence[FieldColumn]) -> TaskRows:
        """Takes the rows where the task's label is known.

        Arguments:
            rows: All rows.
            task: The task.
            calibrated: Its calibrated probabilities, of all rows.
            fields: Fields to slice by, of all rows.
        """
        known, kept = rows.labels[task] >= 0, rows.observed(task)
        logits = kept.logits(task)
        return cls(
            labels=kept.labels[task].astype(np.float64),
            logits=logits,
            forecasts=BeforeAfter(sigmoid(logits), calibrated[known]).map(kept.arrived),
            fields=tuple(replace(field, ids=field.ids[known]) for field in fields),
            weights=None if kept.weights is None else kept.weights.astype(np.float64),
            times=kept.times,
            values=kept.values,
            groups=kept.groups,
            has_dates=kept.has_dates,
        )

    @property
    def n_rows(self) -> int:
        return int(self.labels.shape[0])

    @property
    def n_positive(self) -> float:
        return float(self.labels.sum() if self.weights is None else np.sum(self.labels * self.weights))

    @property
    def total_weight(self) -> float:
        return float(self.n_rows if self.weights is None else self.weights.sum())

    def cells(self, ids: IdColumn, n_cells: int, dispersion: float = 1.0) -> BeforeAfter[Cells]:
        """Adds up rows per cell; see `sum_cells`."""
        columns: dict[str, Any] = {"weights": self.weights, "values": self.values, "dispersion": dispersion}
        return BeforeAfter(*sum_cells(self.labels, list(self.forecasts), ids, n_cells, **columns))

    def dispersion(self, ids: IdColumn) -> float:
        """How much groups widen the noise of cells, by the calibrated forecast; see `dispersion_of`."""
        return dispersion_of(self.labels, self.forecasts.after, ids, groups=self.groups, weights=self.weights)


def field_columns(rows: Table, names: Sequence[str], model_ids: Mapping[str, Ids]) -> tuple[FieldColumn, ...]:
    """Numbers the values of the named fields by frequency."""
    return tuple(_by_frequency(name, rows.fields[name], model_ids.get(name)) for name in names)


def model_ids(rows: Table, vocabulary: Vocabulary) -> dict[str, Ids]:
    """Returns each field of a model in the numbering of its vocabulary, 0 for an unseen value."""
    columns = {field.name: rows.fields[field.name] for field in vocabulary.fields}
    return {name: vocabulary[name].encode(column.known_values)[column.ids] for name, column in columns.items()}


def sample_contexts(columns: Sequence[Ids], n_rows: int) -> Ids:
    """Returns the distinct feature rows `(k, F)` of some two thousand rows spread over all."""
    if not columns:
        return np.zeros((1, 0), dtype=np.int32)
    spread = np.unique(np.linspace(0, n_rows - 1, N_CONTEXTS).astype(np.int64))
    return np.unique(np.stack([column[spread] for column in columns], axis=1), axis=0)


def _by_frequency(name: str, column: EncodedColumn, known: Ids | None) -> FieldColumn:
    counts = np.bincount(column.ids)
    order = np.argsort(-counts, kind="stable")[: int(np.count_nonzero(counts))]
    place = np.zeros(counts.shape[0], dtype=np.int32)
    place[order] = np.arange(order.shape[0], dtype=np.int32)
    values = tuple("(missing)" if value is None else str(value) for value in column.decode(order))
    unseen = float("nan") if known is None else float(np.mean(known == 0))
    return FieldColumn(name, place[column.ids], values, unseen)
