"""Where two fields together are wrong: an overview of all pairs, and the worst pairs value by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.spaces import Floats
from monocal.evaluation.fields import Cells
from monocal.evaluation.stats import Flags, Spread, discoveries, spread_of
from monocal.findings.before_after import BeforeAfter, Side
from monocal.findings.fields import FieldResult
from monocal.findings.pairs import Pair

GRID_VALUES = 10
GRIDS = 3
LEAST_FILLED = 0.4
"""Pairs that hardly meet (a video has one author) make empty pictures; they come last."""


@final
@dataclass(frozen=True, eq=False)
class GridSide:
    """One forecast on two fields, value by value; arrays are `(first values, second values)`.

    Attributes:
        pcoc: As measured where it is significantly off, shrunk elsewhere; NaN where no row is.
        flagged: Significantly off, with the false discovery rate held over all cells of the pair.
    """

    pcoc: Floats
    flagged: Flags


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
        sides: PCOC and flags.
    """

    first: str
    second: str
    first_values: tuple[str, ...]
    second_values: tuple[str, ...]
    weight: Floats
    observed: Floats
    sides: BeforeAfter[GridSide]


@final
@dataclass(frozen=True, eq=False)
class ErrorMatrix:
    """Typical relative error beyond noise of joint cells, field by field; the diagonal holds single fields.

    Attributes:
        errors: Symmetric matrix.
        resolution: The smallest error that would stand out of the noise.
    """

    errors: Floats
    resolution: Floats

    @property
    def visible(self) -> Flags:
        """Where the error stands out of the noise."""
        return self.errors >= self.resolution

    def interaction(self, i: int, j: int) -> float:
        """How much worse two fields are together than each alone; 0 where it does not stand out."""
        if not self.visible[i, j]:
            return 0.0
        alone = max(self.errors[i, i], self.errors[j, j])
        return float(max(self.errors[i, j] ** 2 - alone**2, 0.0))


@final
@dataclass(frozen=True, eq=False)
class HeatMap:
    """All pairs of fields.

    Attributes:
        fields: The fields in the overview.
        overview: Errors of both forecasts.
        grids: The pairs that are wrong together most beyond what each field is alone, in detail.
    """

    fields: tuple[str, ...]
    overview: BeforeAfter[ErrorMatrix]
    grids: tuple[Grid, ...]


def heat_map(
    results: Sequence[FieldResult], names: Sequence[str], pairs: Sequence[Pair], confidence: float = 0.95
) -> HeatMap | None:
    """Builds the overview and the grids; None when there are no two fields to cross."""
    if not pairs:
        return None
    place = {name: index for index, name in enumerate(names)}

    def matrix(side: Side) -> ErrorMatrix:
        alone = {(place[result.name],) * 2: result.errors[side].spread for result in results if result.name in place}
        joint = {at(pair): spread_of(pair.cells[side].counts) for pair in pairs}
        return _matrix(alone | joint, len(names))

    def at(pair: Pair) -> tuple[int, int]:
        return place[pair.first.name], place[pair.second.name]

    def interest(pair: Pair) -> tuple[bool, float, float]:
        m, n, inside = _corner(pair)
        filled = int(inside.sum()) / (m * n)
        return filled >= LEAST_FILLED, overview.after.interaction(*at(pair)), overview.before.interaction(*at(pair))

    overview = BeforeAfter(matrix("before"), matrix("after"))
    worst = sorted(pairs, key=interest, reverse=True)[:GRIDS]
    return HeatMap(tuple(names), overview, tuple(_grid(pair, confidence) for pair in worst))


def _matrix(spreads: Mapping[tuple[int, int], Spread], n: int) -> ErrorMatrix:
    errors, resolution = np.full((n, n), np.nan), np.full((n, n), np.nan)
    for (i, j), spread in spreads.items():
        errors[i, j] = errors[j, i] = spread.relative_error
        resolution[i, j] = resolution[j, i] = spread.resolution
    return ErrorMatrix(errors, resolution)


def _corner(pair: Pair) -> tuple[int, int, Flags]:
    """The size of the grid of the most frequent values, and which joint cells lie in it."""
    m, n = min(pair.first.n_values, GRID_VALUES), min(pair.second.n_values, GRID_VALUES)
    return m, n, (pair.first_place < m) & (pair.second_place < n)


def _grid(pair: Pair, confidence: float) -> Grid:
    m, n, inside = _corner(pair)
    at = (pair.first_place[inside], pair.second_place[inside])

    def fill(column: Floats) -> Floats:
        grid = np.full((m, n), np.nan)
        grid[at] = column[inside]
        return grid

    def side(cells: Cells) -> GridSide:
        flagged = discoveries(cells.p_values, 1.0 - confidence)
        # a flagged cell without positives has no PCOC; its shrunk one is the better picture
        pcoc = np.where(flagged & ~np.isnan(cells.pcoc), cells.pcoc, cells.shrunk_pcoc)
        return GridSide(fill(pcoc), fill(flagged.astype(np.float64)) == 1.0)

    cells = pair.cells.after
    return Grid(
        pair.first.name,
        pair.second.name,
        pair.first.values[:m],
        pair.second.values[:n],
        fill(cells.weight),
        fill(cells.observed),
        pair.cells.map(side),
    )
