"""The rows of a table in memory: the one form that fitting, judging and reporting start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.roles import Roles
from monocal.core.sampling import sampling_shift
from monocal.core.soft_labels import cut_soft, has_soft
from monocal.core.spaces import Floats, sigmoid, to_logits
from monocal.tables.encoded_column import EncodedColumn

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
        times: When each row happened; see `monocal.tables.moments`.
        rates: Sampling rate of all rows or of each; None means 1.
        values: What one positive of each row is worth.
        event_times: When each row happened, where labels come late.
        label_times: When each positive label came; −1 where none has.
        maturity: The share of positives of each row's age whose label has come; None means all.
        has_dates: The times are microseconds since 1970 and can be told as dates.
        units: The row of the table that each row is a part of, where soft labels were cut; None means each its own.

    Example:
        >>> from monocal.tables.read import read
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
