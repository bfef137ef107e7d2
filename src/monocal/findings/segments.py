"""The segments that cost most: in positives promised and not delivered, and in money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.findings.cells import SIDES, Cells
from monocal.findings.fields import FieldResult, estimate
from monocal.findings.pairs import Pair
from monocal.judging.small_counts import discoveries, two_sided_p_value

LEAST_EXPECTED = 5.0
"""Cells that promise fewer positives, before and after, are not candidates; chosen without looking at labels."""


@final
@dataclass(frozen=True)
class SegmentSide:
    """One forecast on one segment.

    Attributes:
        pcoc: Promised over observed positives.
        low: Lower end of its interval.
        high: Upper end.
        gap: Positives promised too many; 0 where luck can explain it.
        value_gap: Money promised too much; 0 where luck can explain the gap in positives, NaN without a value column.
        flagged: Outside noise among all candidate segments.
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
        before: Uncalibrated.
        after: Calibrated.
    """

    parts: tuple[tuple[str, str], ...]
    weight: float
    observed: float
    before: SegmentSide
    after: SegmentSide

    @property
    def name(self) -> str:
        return " × ".join(f"{field}={value}" for field, value in self.parts)


@final
@dataclass(frozen=True)
class Segments:
    """The worst segments, and how many were looked at.

    Attributes:
        worst: The union of the worst by positives and by money, before and after, in order of the gap before.
        n_candidates: Segments that were tested.
        n_flagged_before: Of these, outside noise before calibration.
        n_flagged_after: The same, after.
        has_value: Whether money is known.
    """

    worst: tuple[Segment, ...]
    n_candidates: int
    n_flagged_before: int
    n_flagged_after: int
    has_value: bool


@final
@dataclass(frozen=True, eq=False)
class _Family:
    cells: Cells
    parts: Any

    def name(self, place: int) -> tuple[tuple[str, str], ...]:
        found: tuple[tuple[str, str], ...] = self.parts(place)
        return found


def worst_segments(
    results: Sequence[FieldResult], pairs: Sequence[Pair], *, confidence: float = 0.95, n_each: int = 12
) -> Segments:
    """Ranks single values and joint values by what they cost.

    Segments overlap: a site, and the same site on one device, may both be here. Only gaps that luck cannot explain
    count, with the false discovery rate held over all candidates together.
    """
    families = [_of_field(one) for one in results] + [_of_pair(one) for one in pairs]
    families = [one for one in families if one.cells.n_cells]
    if not families:
        return Segments((), 0, 0, 0, has_value=False)
    flags = {}
    for side in SIDES:
        p_values = [two_sided_p_value(one.cells.counts(side)) for one in families]
        flagged = discoveries(np.concatenate(p_values), 1.0 - confidence)
        flags[side] = np.split(flagged, np.cumsum([len(part) for part in p_values])[:-1])
    tables = [
        _Table.of(family, (flags["before"][place], flags["after"][place]), confidence)
        for place, family in enumerate(families)
    ]
    ranked: dict[tuple[int, int], float] = {}
    for column in ("gap_before", "gap_after", "value_before", "value_after"):
        size = np.concatenate([np.abs(np.nan_to_num(getattr(one, column))) for one in tables])
        owner = np.concatenate([np.full(one.n_rows, place) for place, one in enumerate(tables)])
        within = np.concatenate([np.arange(one.n_rows) for one in tables])
        for place in np.argsort(-size, kind="stable")[:n_each]:
            if size[place] > 0.0:
                ranked[int(owner[place]), int(within[place])] = 0.0
    segments = [tables[family].segment(place) for family, place in ranked]
    segments.sort(key=lambda one: abs(one.before.gap), reverse=True)
    return Segments(
        tuple(segments),
        sum(one.n_rows for one in tables),
        int(sum(part.sum() for part in flags["before"])),
        int(sum(part.sum() for part in flags["after"])),
        has_value=families[0].cells.value is not None,
    )


@final
@dataclass(frozen=True, eq=False)
class _Table:
    family: _Family
    before: Any
    after: Any
    gap_before: Floats
    gap_after: Floats
    value_before: Floats
    value_after: Floats

    @classmethod
    def of(cls, family: _Family, flags: tuple[NDArray[np.bool_], NDArray[np.bool_]], confidence: float) -> _Table:
        before, after = (estimate(family.cells, side, flags[place], confidence) for place, side in enumerate(SIDES))
        gaps = [np.where(flags[place], family.cells.gap(side), 0.0) for place, side in enumerate(SIDES)]
        money = [np.where(flags[place], family.cells.value_gap(side), 0.0) for place, side in enumerate(SIDES)]
        return cls(family, before, after, gaps[0], gaps[1], money[0], money[1])

    @property
    def n_rows(self) -> int:
        return self.family.cells.n_cells

    def segment(self, place: int) -> Segment:
        cells = self.family.cells
        sides = [
            SegmentSide(
                float(one.pcoc[place]),
                float(one.low[place]),
                float(one.high[place]),
                float(gap[place]),
                float(value[place]),
                bool(one.flagged[place]),
            )
            for one, gap, value in (
                (self.before, self.gap_before, self.value_before),
                (self.after, self.gap_after, self.value_after),
            )
        ]
        return Segment(
            self.family.name(place), float(cells.weight[place]), float(cells.observed[place]), sides[0], sides[1]
        )


def _of_field(result: FieldResult) -> _Family:
    kept = _candidates(result.cells)
    return _Family(result.cells.take(kept), lambda place: ((result.name, result.values[kept[place]]),))


def _of_pair(pair: Pair) -> _Family:
    kept = _candidates(pair.cells)

    def parts(place: int) -> tuple[tuple[str, str], ...]:
        first, second = pair.first_place[kept[place]], pair.second_place[kept[place]]
        return (pair.first.name, pair.first.values[first]), (pair.second.name, pair.second.values[second])

    return _Family(pair.cells.take(kept), parts)


def _candidates(cells: Cells) -> NDArray[np.intp]:
    return np.flatnonzero(np.maximum(cells.before.predicted, cells.after.predicted) >= LEAST_EXPECTED)
