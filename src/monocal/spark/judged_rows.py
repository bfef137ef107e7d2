"""Forecasts of a Spark table, batch by batch: the rows that every pass of an evaluation starts from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput
from monocal.core.spaces import Floats
from monocal.models.apply import placed_error, ranges
from monocal.models.model import Model
from monocal.spark.placed import placed
from monocal.spark.shipping import Shipped, receive
from monocal.tables.problems import RawRows
from monocal.tables.roles import Roles
from monocal.tables.table import Table, TimeWindow
from monocal.tables.vocabulary import binned

BEFORE, AFTER = "before", "after"

_ROWS_AT_ONCE = 1 << 17
"""Spark's batches of 10,000 rows are joined up to this size, so that the work per batch does not count."""


class Slot(NamedTuple):
    """One forecast that is judged: a task before or after calibration."""

    task: str
    stage: str


class Judged(NamedTuple):
    """The rows of one slot in one batch: those whose label is known.

    `first_row` is the place of the batch in its partition.
    """

    slot: int
    rows: Table
    labels: Floats
    probabilities: Floats
    weights: Floats | None
    first_row: int


@final
@dataclass(frozen=True)
class Judging:
    """What a worker needs to turn batches into forecasts.

    Attributes:
        roles: Which column plays which part.
        slots: The forecasts, in order.
        shipped: The model; None judges the scores alone.
        since: Rows before this moment are left out.
        until: Rows at or after it are left out.
    """

    roles: Roles
    slots: tuple[Slot, ...]
    shipped: Shipped | None = None
    since: str | None = None
    until: str | None = None

    def forecasts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Judged]:
        """Yields every slot of every batch that has rows for it."""
        model = None if self.shipped is None else receive(self.shipped)
        roles = self.roles
        columns = ranges(roles.score_columns.values(), roles.scores_are, roles.sampling_rate)
        columns |= {} if roles.weight is None else {roles.weight: ("weight", 0.0, np.inf)}
        for piece in placed(_joined(batches)):
            try:
                yield from self._judged(piece, model)
            except InvalidInput as error:
                raise placed_error(columns, piece) or InvalidInput(
                    f"{error} Here the table is {piece.file} from its row {int(piece.numbers[0]):,} on."
                ) from error

    def _judged(self, piece: RawRows, model: Model | None) -> Iterator[Judged]:
        window = TimeWindow.of(piece.batch.schema, self.roles.time, self.since, self.until)
        kept_rows = (piece if window is None else window.rows_of(piece)).batch
        if kept_rows.num_rows:
            rows = Table.read(kept_rows, self.roles)
            if rows.weights is not None and not bool((rows.weights >= 0.0).all()):
                raise InvalidInput.of("weight", "a negative number", "numbers that are zero or positive", "use 0")
            calibrated = None if model is None else model.predict_rows(rows)
            rows = rows if model is None else binned(rows, model.vocabulary)
            for number, slot in enumerate(self.slots):
                kept = rows.labels[slot.task] >= 0
                if not kept.any():
                    continue
                chosen = np.flatnonzero(kept)
                part = rows.take(chosen)
                if slot.stage == BEFORE or calibrated is None:
                    p = part.uncalibrated(slot.task)
                else:
                    p = calibrated[slot.task][chosen]
                labels = part.labels[slot.task].astype(np.float64)
                weights = None if part.weights is None else part.weights.astype(np.float64)
                yield Judged(number, part, labels, p, weights, int(piece.numbers[0]))


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        waiting.append(batch)
        n_rows += batch.num_rows
        if n_rows >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, n_rows = [], 0
    if n_rows:
        yield pa.Table.from_batches(waiting)
