"""Pairs of fields: their joint cells, where interactions hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.progress import progress
from monocal.evaluation.fields import Cells
from monocal.findings.before_after import BeforeAfter
from monocal.findings.fields import FieldResult
from monocal.findings.rows import FieldColumn, TaskRows

MOST_FIELDS = 8
MOST_VALUES = 512
"""Beyond its 512 most frequent values a field takes part in no pair: those cells would be nearly empty."""


@final
@dataclass(frozen=True, eq=False)
class Pair:
    """The joint cells of two fields, those that occur.

    Attributes:
        first: First field.
        second: Second field.
        first_place: For each cell, which value of the first field.
        second_place: For each cell, which value of the second field.
        cells: Sums per cell.
    """

    first: FieldColumn
    second: FieldColumn
    first_place: NDArray[np.intp]
    second_place: NDArray[np.intp]
    cells: BeforeAfter[Cells]


def worst_fields(results: Sequence[FieldResult], at_most: int = MOST_FIELDS) -> list[str]:
    """Returns the fields with the largest error before or after calibration, in their own order."""

    def error(result: FieldResult) -> float:
        return float(np.nanmax([0.0, *(side.spread.relative_error for side in result.errors)]))

    candidates = [result for result in results if len(result.values) > 1]
    chosen = {result.name for result in sorted(candidates, key=error, reverse=True)[:at_most]}
    return [result.name for result in results if result.name in chosen]


def joint_cells(rows: TaskRows, results: Sequence[FieldResult], names: Sequence[str]) -> list[Pair]:
    """Adds up the joint cells of every two of the named fields."""
    dispersion = {result.name: result.dispersion for result in results}
    fields = [field for field in rows.fields if field.name in names]
    pairs = list(combinations(fields, 2))
    found = []
    with progress("pairs of fields", len(pairs), unit="pairs") as bar:
        for first, second in pairs:
            found.append(_pair(rows, first, second, min(dispersion[first.name], dispersion[second.name])))
            bar.advance(1)
    return found


def _pair(rows: TaskRows, first: FieldColumn, second: FieldColumn, dispersion: float) -> Pair:
    m, n = min(first.n_values, MOST_VALUES), min(second.n_values, MOST_VALUES)
    # values are numbered by frequency, so the rare ones lie beyond the cut; their rows go to one cell that is dropped
    rare = (first.ids >= m) | (second.ids >= n)
    joint = np.where(rare, m * n, first.ids.astype(np.int64) * n + second.ids)
    cells = rows.cells(joint.astype(np.int32), m * n + 1, dispersion)
    places = np.flatnonzero(cells.after.weight[:-1] > 0.0)
    return Pair(first, second, places // n, places % n, cells.map(lambda side: side.take(places)))
