"""PCOC of every value of every field, and which of them are significantly off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.evaluation.fields import FieldErrors, field_errors
from monocal.findings.before_after import SIDES, BeforeAfter
from monocal.findings.rows import TaskRows


@final
@dataclass(frozen=True, eq=False)
class FieldResult:
    """All values of one field, most frequent first.

    Attributes:
        name: The field.
        values: Its values.
        unseen_share: Share of rows whose value the model had never met; NaN if it does not know the field.
        errors: Estimates of both forecasts.
        dispersion: How much groups widen the noise of its values.
        shown: Places of the values worth a row in a table: in turn the worst and the largest.
    """

    name: str
    values: tuple[str, ...]
    unseen_share: float
    errors: BeforeAfter[FieldErrors]
    dispersion: float
    shown: NDArray[np.intp]

    @property
    def weight(self) -> Floats:
        """Rows of each value."""
        return self.errors.after.cells.weight

    @property
    def observed(self) -> Floats:
        """Positives of each value."""
        return self.errors.after.cells.observed


def field_results(rows: TaskRows, *, confidence: float = 0.95, n_shown: int = 40) -> tuple[FieldResult, ...]:
    """Estimates every value of every field for both forecasts.

    Arguments:
        rows: The rows.
        confidence: Coverage of intervals.
        n_shown: How many values per field are worth a row in a table.
    """
    dispersions = [rows.dispersion(field.ids) for field in rows.fields]
    sums = [
        rows.cells(field.ids, field.n_values, dispersion)
        for field, dispersion in zip(rows.fields, dispersions, strict=True)
    ]
    kept = [np.flatnonzero(pair.after.weight > 0.0) for pair in sums]
    before, after = (
        field_errors([pair[side].take(places) for pair, places in zip(sums, kept, strict=True)], confidence)
        for side in SIDES
    )
    found = []
    for place, field in enumerate(rows.fields):
        errors = BeforeAfter(before[place], after[place])
        values = tuple(field.values[value] for value in kept[place])
        shown = _worth_showing(errors, n_shown)
        found.append(FieldResult(field.name, values, field.unseen_share, errors, dispersions[place], shown))
    return tuple(found)


def _worth_showing(errors: BeforeAfter[FieldErrors], n_shown: int) -> NDArray[np.intp]:
    impact = np.maximum(*(np.abs(side.excess) for side in errors))
    worst, largest = np.argsort(-impact, kind="stable"), np.argsort(-errors.after.cells.weight, kind="stable")
    in_turn = np.stack([worst, largest], axis=1).ravel()
    _, first_seen = np.unique(in_turn, return_index=True)
    shown: NDArray[np.intp] = in_turn[np.sort(first_seen)][:n_shown]
    return shown
