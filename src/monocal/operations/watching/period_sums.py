"""Rows cut into periods, and what each period says about every slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monocal.core.errors import InvalidInput
from monocal.core.log_loss import log_losses
from monocal.core.spaces import Floats, logit
from monocal.operations.watching.evidence import log_growth
from monocal.tables.encoded_column import EncodedColumn, IdColumn
from monocal.tables.rows import Rows

TOTALS = ("n_rows", "observed", "predicted", "squares", "loss", "expected_loss")
"""What is added up per slice: rows, positives, their forecast, its squares, the log-loss and its expectation."""

MOST_PERIODS = 5_000


@final
@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums of one period per slice.

    Attributes:
        values: The slices' values.
        totals: `(cells, 6)` in the order of `TOTALS`.
        growth: Chart to the log of its bets' factors, `(cells, bets)`.
    """

    values: list[str]
    totals: Floats
    growth: dict[str, Floats]


@final
@dataclass(frozen=True, eq=False)
class PeriodSums:
    """One period.

    Attributes:
        number: Periods since the origin of time.
        rows: Which rows of the table, in time order.
        cells: Task to the sums of all rows (under "") and of every field's values; a task without labels is left out.
    """

    number: int
    rows: slice
    cells: dict[str, dict[str, CellSums]]


def sums_by_period(
    rows: Rows, probabilities: Mapping[str, Floats], *, by: tuple[str, ...], length: int, tolerance: float
) -> Iterator[PeriodSums]:
    """Adds up rows, which are in time order, period after period.

    Arguments:
        rows: The rows.
        probabilities: Task to the forecast that its labels are held against.
        by: Fields or slices whose values are looked at.
        length: The length of a period in the unit of the time column.
        tolerance: See `evidence`.
    """
    if rows.times is None:
        raise InvalidInput.of("time", None, "the column that says when a row happened", 'name it, time="timestamp"')
    numbers = rows.times // length
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    if starts.size > MOST_PERIODS:
        raise InvalidInput.of(
            "every",
            f"{length}, which makes {starts.size:,} periods",
            f"at most {MOST_PERIODS:,} periods in one table",
            'lengthen the period, every="1d", or 86400 if the time column counts seconds',
        )
    texts = {name: _texts(rows.fields[name]) for name in by}
    for start, stop in zip(starts, [*starts[1:], rows.n_rows], strict=True):
        part = slice(int(start), int(stop))
        cells = {}
        for task, forecast in probabilities.items():
            labels = rows.labels[task][part]
            known = np.flatnonzero(labels >= 0)
            if known.size:
                columns = {name: rows.fields[name].ids[part][known] for name in by}
                cells[task] = _cells(forecast[part][known], labels[known].astype(np.float64), columns, texts, tolerance)
        yield PeriodSums(int(numbers[start]), part, cells)


def _cells(
    p: Floats, labels: Floats, columns: Mapping[str, IdColumn], texts: Mapping[str, list[str]], tolerance: float
) -> dict[str, CellSums]:
    growth = log_growth(p, labels, tolerance)
    logits = logit(p)
    # the same clipped logits in both, so that their difference is (p − y) logit p
    parts = [np.ones_like(p), labels, p, p * p, log_losses(logits, labels), log_losses(logits, p)]
    found = {
        "": CellSums([""], _by_cell(parts, None, 1), {name: _by_cell(bet, None, 1) for name, bet in growth.items()})
    }
    for name, ids in columns.items():
        present, places = np.unique(ids, return_inverse=True)
        n = present.size
        bets = {chart: _by_cell(bet, places, n) for chart, bet in growth.items()}
        found[name] = CellSums([texts[name][at] for at in present], _by_cell(parts, places, n), bets)
    return found


def _by_cell(amounts: list[Floats] | Floats, places: IdColumn | None, n_cells: int) -> Floats:
    if places is None:
        return np.array([[amount.sum() for amount in amounts]])
    return np.stack([np.bincount(places, weights=amount, minlength=n_cells) for amount in amounts], axis=1)


def _texts(column: EncodedColumn) -> list[str]:
    texts: list[str] = pc.fill_null(column.known_values.cast(pa.string()), "(missing)").to_pylist()
    return texts
