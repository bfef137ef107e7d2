"""PCOC of every value of every field, and which of them luck cannot explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.findings.cells import SIDES, Cells, Side, dispersion_of, sum_cells
from monocal.findings.rows import FieldColumn, TaskRows
from monocal.findings.spread import Spread, levelled, spread_of
from monocal.findings.two_stages import two_stage_discoveries
from monocal.judging.small_counts import ratio_interval, shrunk_ratio, two_sided_p_value


@final
@dataclass(frozen=True, eq=False)
class ValueEstimates:
    """One forecast's PCOC per value of a field.

    Attributes:
        pcoc: Promised over observed positives; NaN without a positive.
        low: Lower end of its interval.
        high: Upper end; infinite without a positive.
        shrunk: PCOC pulled towards 1, the more the fewer positives the value has.
        p_value: Two-sided, against a right forecast.
        flagged: Outside noise, in a field that is; the false discovery rate is held.
    """

    pcoc: Floats
    low: Floats
    high: Floats
    shrunk: Floats
    p_value: Floats
    flagged: NDArray[np.bool_]

    @property
    def n_flagged(self) -> int:
        return int(self.flagged.sum())


@final
@dataclass(frozen=True, eq=False)
class FieldResult:
    """All values of one field, most frequent first.

    Attributes:
        name: The field.
        values: Its values.
        unseen_share: Share of rows whose value the model had never met; NaN if it does not know the field.
        cells: Sums per value.
        before: Estimates of the uncalibrated forecast.
        after: Estimates of the calibrated forecast.
        spread_before: How far off the values are together, uncalibrated.
        spread_after: The same, calibrated.
        outside_before: Whether the field is outside its noise, as a whole or through single values, uncalibrated.
        outside_after: The same, calibrated.
        uneven_before: How much its values differ from the forecast's overall level, uncalibrated.
        uneven_after: The same, calibrated: what is left when the overall bias is taken out.
        dispersion: How much groups widen the noise of its values.
        shown: Places of the values worth a row in a table: in turn the worst and the largest.
    """

    name: str
    values: tuple[str, ...]
    unseen_share: float
    cells: Cells
    before: ValueEstimates
    after: ValueEstimates
    spread_before: Spread
    spread_after: Spread
    outside_before: bool
    outside_after: bool
    uneven_before: Spread
    uneven_after: Spread
    dispersion: float
    shown: NDArray[np.intp]

    def estimates(self, side: Side) -> ValueEstimates:
        return self.before if side == "before" else self.after

    def spread(self, side: Side) -> Spread:
        return self.spread_before if side == "before" else self.spread_after

    def outside(self, side: Side) -> bool:
        return self.outside_before if side == "before" else self.outside_after

    def uneven(self, side: Side) -> Spread:
        return self.uneven_before if side == "before" else self.uneven_after


def field_results(rows: TaskRows, *, confidence: float = 0.95, n_shown: int = 40) -> tuple[FieldResult, ...]:
    """Estimates every value of every field; the long tail is shrunk, never folded into "other".

    First fields are tested, then the values of those that are off, with the false discovery rate held at 1 − confidence
    (`two_stage_discoveries`).

    Arguments:
        rows: The rows.
        confidence: Coverage of intervals.
        n_shown: How many values per field are worth a row in a table.
    """
    dispersions = [dispersion_of(rows, field.ids) for field in rows.fields]
    sums = [
        sum_cells(rows, field.ids, field.n_values, dispersion)
        for field, dispersion in zip(rows.fields, dispersions, strict=True)
    ]
    kept = [np.flatnonzero(cells.weight > 0.0) for cells in sums]
    cells = [one.take(places) for one, places in zip(sums, kept, strict=True)]
    spreads = {side: [spread_of(one.counts(side)) for one in cells] for side in SIDES}
    outside, flags = {}, {}
    for side in SIDES:
        outside[side], flags[side] = two_stage_discoveries(
            [one.p_value for one in spreads[side]],
            [two_sided_p_value(one.counts(side)) for one in cells],
            1.0 - confidence,
        )
    return tuple(
        _result(
            field,
            kept[place],
            cells[place],
            (flags["before"][place], flags["after"][place]),
            (spreads["before"][place], spreads["after"][place]),
            (bool(outside["before"][place]), bool(outside["after"][place])),
            dispersions[place],
            confidence,
            n_shown,
        )
        for place, field in enumerate(rows.fields)
    )


def excess_gap(cells: Cells, estimates: ValueEstimates, side: Side) -> Floats:
    """Positives promised too many: as measured where luck cannot explain it, by the shrunk estimate elsewhere."""
    shrunk = cells.promise(side).predicted * (1.0 - 1.0 / estimates.shrunk)
    return np.where(estimates.flagged, cells.gap(side), shrunk)


def estimate(cells: Cells, side: Side, flagged: NDArray[np.bool_], confidence: float) -> ValueEstimates:
    """Estimates the PCOC of each cell of a family."""
    counts = cells.counts(side)
    low, high = ratio_interval(counts, confidence)
    return ValueEstimates(cells.pcoc(side), low, high, shrunk_ratio(counts), two_sided_p_value(counts), flagged)


def _result(
    field: FieldColumn,
    kept: NDArray[np.intp],
    cells: Cells,
    flags: tuple[Any, Any],
    spreads: tuple[Spread, Spread],
    outside: tuple[bool, bool],
    dispersion: float,
    confidence: float,
    n_shown: int,
) -> FieldResult:
    before, after = (estimate(cells, side, flags[place], confidence) for place, side in enumerate(SIDES))
    impact = np.maximum(np.abs(excess_gap(cells, before, "before")), np.abs(excess_gap(cells, after, "after")))
    values = tuple(field.values[place] for place in kept)
    return FieldResult(
        field.name,
        values,
        field.unseen_share,
        cells,
        before,
        after,
        *spreads,
        *outside,
        spread_of(levelled(cells.counts("before"))),
        spread_of(levelled(cells.counts("after"))),
        dispersion,
        shown=_worth_showing(cells.weight, impact, n_shown),
    )


def _worth_showing(weight: Floats, impact: Floats, n_shown: int) -> NDArray[np.intp]:
    worst, largest = np.argsort(-impact, kind="stable"), np.argsort(-weight, kind="stable")
    in_turn = np.stack([worst, largest], axis=1).ravel()
    _, first_seen = np.unique(in_turn, return_index=True)
    shown: NDArray[np.intp] = in_turn[np.sort(first_seen)][:n_shown]
    return shown
