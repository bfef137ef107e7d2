"""Where two fields together are wrong: an overview of all pairs, and the worst pairs value by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.findings.cells import SIDES, Side
from monocal.findings.fields import FieldResult
from monocal.findings.pairs import Pair
from monocal.findings.spread import Spread, spread_of
from monocal.judging.small_counts import discoveries, shrunk_ratio, two_sided_p_value

GRID_VALUES = 10
GRIDS = 3
LEAST_FILLED = 0.4
"""Pairs that hardly meet (a video has one author) make empty pictures; they come last."""


@final
@dataclass(frozen=True, eq=False)
class Grid:
    """Two fields, value by value; arrays are `(first values, second values)`, NaN where no row is.

    Attributes:
        first: Name of the field that goes down.
        second: Name of the field that goes across.
        first_values: Its most frequent values.
        second_values: The other's.
        weight: Rows.
        observed: Positives.
        before: PCOC, uncalibrated: as measured where it is outside noise, shrunk elsewhere.
        after: The same, calibrated.
        flagged_before: Outside noise, with the false discovery rate held over all cells of the pair.
        flagged_after: The same, calibrated.
    """

    first: str
    second: str
    first_values: tuple[str, ...]
    second_values: tuple[str, ...]
    weight: Floats
    observed: Floats
    before: Floats
    after: Floats
    flagged_before: NDArray[np.bool_]
    flagged_after: NDArray[np.bool_]

    def pcoc(self, side: Side) -> Floats:
        return self.before if side == "before" else self.after

    def flagged(self, side: Side) -> NDArray[np.bool_]:
        return self.flagged_before if side == "before" else self.flagged_after


@final
@dataclass(frozen=True, eq=False)
class HeatMap:
    """Typical relative error beyond noise of joint cells, field by field.

    Attributes:
        fields: The fields in the overview.
        before: Symmetric matrix, uncalibrated; the diagonal holds single fields.
        after: The same, calibrated.
        resolution_before: The smallest error that would stand out of the noise, uncalibrated.
        resolution_after: The same, calibrated.
        grids: The pairs that are wrong together most beyond what each field is alone, in detail.
    """

    fields: tuple[str, ...]
    before: Floats
    after: Floats
    resolution_before: Floats
    resolution_after: Floats
    grids: tuple[Grid, ...]

    def errors(self, side: Side) -> Floats:
        return self.before if side == "before" else self.after

    def resolution(self, side: Side) -> Floats:
        return self.resolution_before if side == "before" else self.resolution_after


def heat_map(
    results: Sequence[FieldResult], names: Sequence[str], pairs: Sequence[Pair], confidence: float = 0.95
) -> HeatMap | None:
    """Builds the overview and the grids; None when there are no two fields to cross."""
    if not pairs:
        return None
    place = {name: index for index, name in enumerate(names)}
    errors, resolutions = ({side: np.full((len(names), len(names)), np.nan) for side in SIDES} for _ in range(2))

    def note(side: Side, i: int, j: int, found: Spread) -> None:
        for matrices, number in ((errors, found.relative_error), (resolutions, found.resolution)):
            matrices[side][i, j] = matrices[side][j, i] = number

    for side in SIDES:
        for result in results:
            if result.name in place:
                note(side, place[result.name], place[result.name], result.spread(side))
        for pair in pairs:
            note(side, place[pair.first.name], place[pair.second.name], spread_of(pair.cells.counts(side)))

    def interaction(pair: Pair, side: Side) -> float:
        i, j = place[pair.first.name], place[pair.second.name]
        if errors[side][i, j] < resolutions[side][i, j]:
            return 0.0
        alone = max(errors[side][i, i], errors[side][j, j])
        return float(max(errors[side][i, j] ** 2 - alone**2, 0.0))

    def interest(pair: Pair) -> tuple[bool, float, float]:
        m, n = min(pair.first.n_values, GRID_VALUES), min(pair.second.n_values, GRID_VALUES)
        filled = int(np.sum((pair.first_place < m) & (pair.second_place < n))) / (m * n)
        return filled >= LEAST_FILLED, interaction(pair, "after"), interaction(pair, "before")

    worst = sorted(pairs, key=interest, reverse=True)[:GRIDS]
    return HeatMap(
        tuple(names),
        errors["before"],
        errors["after"],
        resolutions["before"],
        resolutions["after"],
        tuple(_grid(pair, confidence) for pair in worst),
    )


def _grid(pair: Pair, confidence: float) -> Grid:
    m, n = min(pair.first.n_values, GRID_VALUES), min(pair.second.n_values, GRID_VALUES)
    inside = (pair.first_place < m) & (pair.second_place < n)
    at = (pair.first_place[inside], pair.second_place[inside])

    def fill(column: Floats) -> Floats:
        grid = np.full((m, n), np.nan)
        grid[at] = column[inside]
        return grid

    flags, pcoc = {}, {}
    for side in SIDES:
        counts = pair.cells.counts(side)
        flagged = discoveries(two_sided_p_value(counts), 1.0 - confidence)
        # a flagged cell without positives has no PCOC; its shrunk one is the better picture
        measured = np.where(np.isnan(pair.cells.pcoc(side)), shrunk_ratio(counts), pair.cells.pcoc(side))
        pcoc[side] = fill(np.where(flagged, measured, shrunk_ratio(counts)))
        flags[side] = np.nan_to_num(fill(flagged.astype(np.float64))) > 0.0

    return Grid(
        pair.first.name,
        pair.second.name,
        pair.first.values[:m],
        pair.second.values[:n],
        fill(pair.cells.weight),
        fill(pair.cells.observed),
        pcoc["before"],
        pcoc["after"],
        flags["before"],
        flags["after"],
    )
