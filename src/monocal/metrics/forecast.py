"""Validated rows of a forecast: what every metric receives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import (
    Floats,
    as_float_column,
    check_labels,
    check_length,
    check_weights,
    cut_soft,
    has_soft,
    refuse_rows,
)

IdColumn = NDArray[np.integer[Any]]

LARGEST_ID = (1 << 27) - 1
"""Sums per field value are dense arrays, so ids must be small numbers: 2²⁷ doubles are one gigabyte."""

CHUNK_ROWS = 1 << 20
"""Rows that are added up at a time, so that temporary columns stay small."""


@final
@dataclass(frozen=True, eq=False)
class Forecast:
    """What was predicted, what happened, and how rows belong together.

    Attributes:
        labels: 0.0 or 1.0 per row.
        probabilities: The predicted probability of a 1, in [0, 1].
        weights: How often each row counts; None means once.
        fields: Ids of each field's values, one column per field name, in the order the caller gave.
        groups: Ids of the users (or sessions, queries) the rows belong to; None when unknown.
        units: Ids of rows that are one observation, the pieces of a soft label; None when each is its own.
    """

    labels: Floats
    probabilities: Floats
    weights: Floats | None = None
    fields: Mapping[str, IdColumn] = field(default_factory=dict)
    groups: IdColumn | None = None
    units: IdColumn | None = None

    @classmethod
    def of(
        cls,
        labels: ArrayLike,
        probabilities: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        fields: Mapping[str, ArrayLike] | None = None,
        groups: ArrayLike | None = None,
        units: ArrayLike | None = None,
        soft_labels: bool = False,
    ) -> Forecast:
        """Checks every column. No rows at all is allowed here, because a stream may bring an empty batch.

        Arguments:
            labels: 0 or 1 per row.
            probabilities: Predictions in [0, 1].
            weights: Numbers ≥ 0; weight k means the row k times.
            fields: Integer ids ≥ 0 per field; `monocal.evaluate` accepts any values and encodes them.
            groups: Integer ids ≥ 0 of what is resampled together, such as users.
            units: Integer ids ≥ 0 of rows that are one observation; None takes every row as one.
            soft_labels: Labels may be any numbers in [0, 1]; such a row becomes two, see `cut_soft`.

        Example:
            >>> Forecast.of([0, 1], [0.2, 0.7], fields={"site": [0, 3]}).n_rows
            2
            >>> Forecast.of([0, 1], [0.2, 1.7])
            Traceback (most recent call last):
            ...
            monocal.core.errors.InvalidInput: probabilities: got 1.7 at row 1; expected numbers in [0, 1]. Hint: ...
        """
        predicted = check_probabilities(probabilities)
        n = predicted.shape[0]
        forecast = cls(
            labels=check_labels(labels, n, soft=soft_labels),
            probabilities=predicted,
            weights=None if weights is None else _check_weights(weights, n),
            fields={name: _check_ids(ids, n, f"fields[{name!r}]") for name, ids in (fields or {}).items()},
            groups=None if groups is None else _check_ids(groups, n, "groups"),
            units=None if units is None else _check_ids(units, n, "units"),
        )
        return forecast.with_hard_labels() if soft_labels else forecast

    @property
    def n_rows(self) -> int:
        return int(self.probabilities.shape[0])

    @property
    def n_observed_rows(self) -> int:
        """Rows as they came: the pieces of a soft label are one."""
        return self.n_rows if self.units is None else int(np.unique(self.units).size)

    @property
    def total_weight(self) -> float:
        """Rows, counted with their weights."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    @property
    def n_positive(self) -> float:
        """Positives, likewise."""
        return float(self.labels.sum() if self.weights is None else np.sum(self.labels * self.weights))

    def take(self, rows: slice | NDArray[Any]) -> Forecast:
        """Returns the chosen rows (a slice makes views, not copies)."""
        return Forecast(
            self.labels[rows],
            self.probabilities[rows],
            None if self.weights is None else self.weights[rows],
            {name: ids[rows] for name, ids in self.fields.items()},
            None if self.groups is None else self.groups[rows],
            None if self.units is None else self.units[rows],
        )

    def chunks(self, n_rows: int = CHUNK_ROWS) -> Iterator[Forecast]:
        """Yields the rows in slices; one empty slice when there are none."""
        for start in range(0, max(self.n_rows, 1), n_rows):
            yield self.take(slice(start, start + n_rows))

    def with_hard_labels(self) -> Forecast:
        """Returns the same rows with soft labels as weighted rows with hard ones; hard rows stay as they are."""
        if not has_soft(self.labels):
            return self
        pieces = cut_soft(self.labels[:, None])
        weights = pieces.shares if self.weights is None else pieces.shares * self.weights[pieces.rows]
        cut = self.take(pieces.rows)
        units = pieces.rows if cut.units is None else cut.units
        return replace(cut, labels=pieces.labels[:, 0].astype(np.float64), weights=weights, units=units)

    def with_labels(self, labels: Floats) -> Forecast:
        return replace(self, labels=labels)

    def with_weights(self, weights: Floats | None) -> Forecast:
        return replace(self, weights=weights)


def check_probabilities(probabilities: ArrayLike, argument: str = "probabilities") -> Floats:
    """Returns predictions as float64 in [0, 1], or names the first row that is not."""
    column = as_float_column(probabilities, argument)
    hint = 'pass scores_are="logit" to monocal.evaluate if these are logits'
    refuse_rows((column < 0.0) | (column > 1.0), column, argument, "numbers in [0, 1]", hint)
    return column


def _check_weights(weights: ArrayLike, n_rows: int) -> Floats:
    column = check_length(as_float_column(weights, "weights"), n_rows, "weights")
    # a batch whose rows all weigh nothing is a fair part of a stream; anything else gets the full check
    return check_weights(column, n_rows) if np.any(column != 0.0) else column


def _check_ids(ids: ArrayLike, n_rows: int, argument: str) -> IdColumn:
    column = check_length(np.asarray(ids), n_rows, argument)
    if column.ndim != 1 or (column.dtype.kind not in "iu" and column.size):
        raise InvalidInput.of(
            argument,
            f"an array of type {column.dtype} and shape {column.shape}",
            "one integer id per row",
            "hand raw values to monocal.evaluate, which encodes them",
        )
    if column.size and (int(column.min()) < 0 or int(column.max()) > LARGEST_ID):
        raise InvalidInput.of(
            argument,
            f"ids from {column.min()} to {column.max()}",
            f"ids from 0 to {LARGEST_ID}",
            "number the values 0, 1, 2, … or hand them to monocal.evaluate, which does",
        )
    return column if column.dtype.kind in "iu" else column.astype(np.int32)
