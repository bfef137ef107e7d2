"""The segments that cost most: in positives predicted and not delivered, and in value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.evaluation.fields import Cells
from monocal.evaluation.stats import Flags, joint_discoveries
from monocal.findings.before_after import SIDES, BeforeAfter, Side
from monocal.findings.fields import FieldResult
from monocal.findings.pairs import Pair

LEAST_EXPECTED = 5.0
"""Cells that predict fewer positives, before and after, are not candidates; chosen without looking at labels."""

Parts = tuple[tuple[str, str], ...]


@final
@dataclass(frozen=True)
class SegmentSide:
    """One forecast on one segment.

    Attributes:
        pcoc: Predicted over observed positives.
        low: Lower end of its interval.
        high: Upper end.
        gap: Predicted minus observed positives; 0 where it is not significant.
        value_gap: Predicted minus delivered value; 0 where the gap in positives is not significant, NaN without a value
            column.
        flagged: Significantly off among all candidate segments.
    """

    pcoc: float
    low: float
    high: float
    gap: float
    value_gap: float
    flagged: bool


@final
@dataclass(frozen=True)
class Segment:
    """Rows that share one value, or two.

    Attributes:
        parts: Field and value, once or twice.
        weight: Rows.
        observed: Positives.
        sides: Both forecasts.
    """

    parts: Parts
    weight: float
    observed: float
    sides: BeforeAfter[SegmentSide]

    @property
    def name(self) -> str:
        return " × ".join(f"{field}={value}" for field, value in self.parts)


@final
@dataclass(frozen=True)
class Segments:
    """The worst segments, and how many were looked at.

    Attributes:
        worst: The union of the worst by positives and by value, before and after, in order of the gap before.
        n_candidates: Segments that were tested.
        n_flagged: Of these, significantly off.
        has_value: Whether a value column was given.
    """

    worst: tuple[Segment, ...]
    n_candidates: int
    n_flagged: BeforeAfter[int]
    has_value: bool


@final
@dataclass(frozen=True, eq=False)
class _Candidates:
    """The cells of one field or pair that are tested."""

    cells: BeforeAfter[Cells]
    parts: Callable[[int], Parts]

    @property
    def n_cells(self) -> int:
        return self.cells.after.n_cells

    def segment(self, place: int, flags: BeforeAfter[Flags], confidence: float) -> Segment:
        chosen = self.cells.map(lambda cells: cells.take(slice(place, place + 1)))
        sides = BeforeAfter(*(_side(chosen[side], bool(flags[side][place]), confidence) for side in SIDES))
        cells = chosen.after
        return Segment(self.parts(place), float(cells.weight[0]), float(cells.observed[0]), sides)


def worst_segments(
    results: Sequence[FieldResult], pairs: Sequence[Pair], *, confidence: float = 0.95, n_each: int = 12
) -> Segments:
    """Ranks single values and joint values by what they cost.

    Segments overlap: a site, and the same site on one device, may both be here. Only significant gaps count, with the
    false discovery rate held over all candidates together.
    """
    families = [_of_field(result) for result in results] + [_of_pair(pair) for pair in pairs]
    families = [family for family in families if family.n_cells]
    if not families:
        return Segments((), 0, BeforeAfter(0, 0), has_value=False)

    def flag(side: Side) -> list[Flags]:
        return joint_discoveries([family.cells[side].p_values for family in families], 1.0 - confidence)

    flags = [BeforeAfter(*pair) for pair in zip(flag("before"), flag("after"), strict=True)]
    places = [(family, place) for family, found in enumerate(families) for place in range(found.n_cells)]
    ranked: dict[tuple[int, int], None] = {}
    for gap, side in product(("gap", "value_gap"), SIDES):
        gaps = np.concatenate([getattr(family.cells[side], gap) for family in families])
        flagged = np.concatenate([pair[side] for pair in flags])
        size = np.where(flagged, np.abs(np.nan_to_num(gaps)), 0.0)
        largest = np.argsort(-size, kind="stable")[:n_each]
        ranked.update(dict.fromkeys(places[place] for place in largest if size[place] > 0.0))
    segments = [families[family].segment(place, flags[family], confidence) for family, place in ranked]
    segments.sort(key=lambda segment: abs(segment.sides.before.gap), reverse=True)
    return Segments(
        tuple(segments),
        len(places),
        BeforeAfter(*(sum(int(pair[side].sum()) for pair in flags) for side in SIDES)),
        has_value=families[0].cells.after.observed_value is not None,
    )


def _side(cell: Cells, flagged: bool, confidence: float) -> SegmentSide:
    low, high = cell.interval(confidence)
    gap, value_gap = float(cell.gap[0]), float(cell.value_gap[0])
    return SegmentSide(
        float(cell.pcoc[0]),
        float(low[0]),
        float(high[0]),
        gap if flagged else 0.0,
        value_gap if flagged or cell.observed_value is None else 0.0,
        flagged,
    )


def _of_field(result: FieldResult) -> _Candidates:
    cells = result.errors.map(lambda errors: errors.cells)
    kept = _candidates(cells)
    return _Candidates(
        cells.map(lambda side: side.take(kept)), lambda place: ((result.name, result.values[kept[place]]),)
    )


def _of_pair(pair: Pair) -> _Candidates:
    kept = _candidates(pair.cells)

    def parts(place: int) -> Parts:
        first, second = pair.first_place[kept[place]], pair.second_place[kept[place]]
        return (pair.first.name, pair.first.values[first]), (pair.second.name, pair.second.values[second])

    return _Candidates(pair.cells.map(lambda side: side.take(kept)), parts)


def _candidates(cells: BeforeAfter[Cells]) -> NDArray[np.intp]:
    return np.flatnonzero(np.maximum(*(side.predicted for side in cells)) >= LEAST_EXPECTED)
