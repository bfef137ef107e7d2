"""PCOC over time: does the forecast grow stale, and where?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special

from monocal.core.spaces import Floats
from monocal.findings.cells import Cells, Side, dispersion_of, sum_cells
from monocal.findings.rows import FieldColumn, TaskRows
from monocal.findings.spread import Spread, levelled, spread_of
from monocal.findings.windows import Windows, cut_windows
from monocal.judging.small_counts import MatchedCounts, discoveries, ratio_interval, two_sided_p_value
from monocal.metrics.stability_index import StabilityIndex, stability_index


@final
@dataclass(frozen=True, eq=False)
class DriftLine:
    """One forecast over the windows.

    Attributes:
        pcoc: PCOC per window.
        low: Lower end of its interval.
        high: Upper end.
        wobble: How much PCOC varies around its own mean beyond noise, with a p-value.
        trend: Relative change of PCOC from the first window to the last along a straight line; NaN if unknown.
        trend_low: Lower end of its interval.
        trend_high: Upper end.
    """

    pcoc: Floats
    low: Floats
    high: Floats
    wobble: Spread
    trend: float
    trend_low: float
    trend_high: float

    @property
    def is_real(self) -> bool:
        """Whether the trend's interval excludes "no change"."""
        return bool(self.trend_low > 0.0 or self.trend_high < 0.0)


@final
@dataclass(frozen=True)
class Moved:
    """A value whose calibrated PCOC changed between the first and the second half of the period."""

    field: str
    value: str
    observed: float
    first_pcoc: float
    second_pcoc: float
    p_value: float


@final
@dataclass(frozen=True, eq=False)
class Drift:
    """Everything over time.

    Attributes:
        windows: How time was cut.
        cells: Sums per window.
        before: The uncalibrated forecast.
        after: The calibrated one.
        moved: Values whose calibrated PCOC moved beyond noise, the largest gaps first.
        n_values: Values that were tested for it.
        score_shift: Stability of the score against the rows the model was fitted on.
    """

    windows: Windows
    cells: Cells
    before: DriftLine
    after: DriftLine
    moved: tuple[Moved, ...]
    n_values: int
    score_shift: StabilityIndex

    def line(self, side: Side) -> DriftLine:
        return self.before if side == "before" else self.after


def drift(
    rows: TaskRows,
    *,
    time_is_calendar: bool,
    fit_facts: Mapping[str, Any] | None = None,
    confidence: float = 0.95,
    n_moved: int = 10,
) -> Drift:
    """Follows PCOC through time windows and compares the two halves of the period value by value."""
    windows = cut_windows(rows.times, rows.n_rows, time_is_calendar=time_is_calendar, n_positive=rows.n_positive)
    cells = sum_cells(rows, windows.ids, windows.n_windows, dispersion_of(rows, windows.ids))
    moved, n_values = _moved(rows, windows, confidence)
    return Drift(
        windows,
        cells,
        _line(cells, windows, "before", confidence),
        _line(cells, windows, "after", confidence),
        tuple(moved[:n_moved]),
        n_values,
        score_shift(rows, fit_facts or {}),
    )


def score_shift(rows: TaskRows, fit_facts: Mapping[str, Any]) -> StabilityIndex:
    """Compares the score's distribution with that of the rows the model was fitted on; NaN if those are unknown."""
    edges, shares = fit_facts.get("score_edges_logit"), fit_facts.get("score_shares")
    if edges is None or shares is None or len(shares) < 2:
        return StabilityIndex(float("nan"), float("nan"))
    place = np.searchsorted(np.asarray(edges, dtype=np.float64), rows.logits)
    counts = np.bincount(place, weights=rows.weights, minlength=len(shares))
    return stability_index(fit_facts["n_rows"] * np.asarray(shares, dtype=np.float64), counts)


def _line(cells: Cells, windows: Windows, side: Side, confidence: float) -> DriftLine:
    counts = cells.counts(side)
    low, high = ratio_interval(counts, confidence)
    level = levelled(counts)
    trend, trend_low, trend_high = _trend(level, windows.starts, confidence)
    return DriftLine(cells.pcoc(side), low, high, spread_of(level), trend, trend_low, trend_high)


def _trend(counts: MatchedCounts, starts: Floats, confidence: float) -> tuple[float, float, float]:
    # one scoring step of a Poisson regression with a straight line in time, from "no trend": exact to first order
    if starts.shape[0] < 3 or not np.all(np.isfinite(counts.expected)) or counts.expected.sum() <= 0.0:
        return float("nan"), float("nan"), float("nan")
    time = (starts - starts[0]) / (starts[-1] - starts[0])
    time = time - np.average(time, weights=counts.expected)
    variance = counts.expected * np.maximum(1.0 - counts.rate, 0.0)
    information = float(np.sum(counts.expected * time**2))
    # observed events over promises rise by this much, so PCOC falls by it
    slope = -float(np.sum(time * (counts.positives - counts.expected))) / information
    half = float(special.ndtri(0.5 + 0.5 * confidence)) * float(np.sqrt(np.sum(variance * time**2))) / information
    low, middle, high = np.expm1([slope - half, slope, slope + half])
    return float(middle), float(low), float(high)


def _moved(rows: TaskRows, windows: Windows, confidence: float) -> tuple[list[Moved], int]:
    half = windows.ids >= _halfway(rows, windows)
    tables = [_halves(rows, field, half) for field in rows.fields]
    tables = [table for table in tables if table is not None]
    if not tables:
        return [], 0
    p_values = np.concatenate([two_sided_p_value(_conditional(first, second)) for _, _, first, second in tables])
    flagged = np.split(
        discoveries(p_values, 1.0 - confidence), np.cumsum([len(places) for _, places, _, _ in tables])[:-1]
    )
    found = []
    for (field, places, first, second), flags in zip(tables, flagged, strict=True):
        ps = two_sided_p_value(_conditional(first, second))
        for place in np.flatnonzero(flags):
            found.append(
                Moved(
                    field.name,
                    field.values[places[place]],
                    float(first.observed[place] + second.observed[place]),
                    float(first.pcoc("after")[place]),
                    float(second.pcoc("after")[place]),
                    float(ps[place]),
                )
            )
    found.sort(key=lambda one: (one.p_value, -one.observed))
    return found, int(p_values.shape[0])


def _halfway(rows: TaskRows, windows: Windows) -> int:
    positives = np.bincount(windows.ids, weights=rows.labels, minlength=windows.n_windows)
    return int(np.searchsorted(np.cumsum(positives), positives.sum() / 2.0)) + 1


def _halves(rows: TaskRows, field: FieldColumn, half: Any) -> Any:
    ids = (field.ids + field.n_values * half).astype(np.int32)
    both = sum_cells(rows, ids, 2 * field.n_values, dispersion_of(rows, ids))
    first, second = both.take(slice(0, field.n_values)), both.take(slice(field.n_values, None))
    places = np.flatnonzero((first.observed >= 5.0) & (second.observed >= 5.0))
    return (field, places, first.take(places), second.take(places)) if places.size else None


def _conditional(first: Cells, second: Cells) -> MatchedCounts:
    # given both halves' positives together, the first half's share is binomial if PCOC did not move
    scale = first.effective_weight
    one, other = first.after.predicted, second.after.predicted
    trials = (first.observed + second.observed) / scale
    return MatchedCounts(first.observed / scale, trials * one / (one + other), trials)
