"""PCOC over time: does the forecast grow stale, and where?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from scipy import special

from monocal.core.spaces import Floats
from monocal.evaluation.fields import Cells
from monocal.evaluation.stats import MatchedCounts, Spread, joint_discoveries, levelled, spread_of, two_sided_p_value
from monocal.findings.before_after import BeforeAfter
from monocal.findings.rows import FieldColumn, TaskRows
from monocal.findings.windows import Windows, cut_windows
from monocal.metrics.drift import StabilityIndex, stability_index

LEAST_OBSERVED = 5.0
"""A value is compared between the halves of the period if each holds this many positives."""


class Trend(NamedTuple):
    """Relative change of PCOC from the first window to the last along a straight line; NaN if unknown.

    Attributes:
        change: The change; 0.1 means that PCOC rose by a tenth.
        low: Lower end of its interval.
        high: Upper end.
    """

    change: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes "no change"."""
        return self.low > 0.0 or self.high < 0.0


@final
@dataclass(frozen=True, eq=False)
class DriftLine:
    """One forecast over the windows.

    Attributes:
        cells: Sums per window.
        low: Lower end of the interval of PCOC.
        high: Upper end.
        variation: How much PCOC varies around its own mean beyond noise, with a p-value.
        trend: Its straight line.
    """

    cells: Cells
    low: Floats
    high: Floats
    variation: Spread
    trend: Trend

    @property
    def varies(self) -> bool:
        """Whether chance does not explain how PCOC varies."""
        return self.variation.p_value < 0.05 and self.variation.relative_error > 0.0


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
        lines: Both forecasts.
        moved: Values whose calibrated PCOC moved significantly, the surest first.
        n_values: Values that were tested for it.
        score_shift: Stability of the score against the rows the model was fitted on.
    """

    windows: Windows
    lines: BeforeAfter[DriftLine]
    moved: tuple[Moved, ...]
    n_values: int
    score_shift: StabilityIndex


def drift(
    rows: TaskRows,
    *,
    fit_facts: Mapping[str, Any] | None = None,
    confidence: float = 0.95,
    n_moved: int = 10,
) -> Drift:
    """Follows PCOC through time windows and compares the two halves of the period value by value."""
    windows = cut_windows(rows.times, rows.n_rows, time_is_calendar=rows.has_dates, n_positive=rows.n_positive)
    cells = rows.cells(windows.ids, windows.n_windows, rows.dispersion(windows.ids))
    moved, n_values = _moved(rows, windows, confidence)
    return Drift(
        windows,
        cells.map(lambda side: _line(side, windows.starts, confidence)),
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


def _line(cells: Cells, starts: Floats, confidence: float) -> DriftLine:
    low, high = cells.interval(confidence)
    level = levelled(cells.counts)
    return DriftLine(cells, low, high, spread_of(level), _trend(level, starts, confidence))


def _trend(counts: MatchedCounts, starts: Floats, confidence: float) -> Trend:
    # one scoring step of a Poisson regression with a straight line in time, from "no trend": exact to first order
    if starts.shape[0] < 3 or not np.all(np.isfinite(counts.expected)) or counts.expected.sum() <= 0.0:
        return Trend(float("nan"), float("nan"), float("nan"))
    time = (starts - starts[0]) / (starts[-1] - starts[0])
    time = time - np.average(time, weights=counts.expected)
    variance = counts.expected * np.maximum(1.0 - counts.rate, 0.0)
    information = float(np.sum(counts.expected * time**2))
    # observed over predicted events rise by this much, so PCOC falls by it
    slope = -float(np.sum(time * (counts.positives - counts.expected))) / information
    half = float(special.ndtri(0.5 + 0.5 * confidence)) * float(np.sqrt(np.sum(variance * time**2))) / information
    return Trend(*(float(change) for change in np.expm1([slope, slope - half, slope + half])))


class _Halves(NamedTuple):
    """Values of one field that both halves of the period hold often enough."""

    values: tuple[str, ...]
    first: Cells
    second: Cells
    p_values: Floats


def _moved(rows: TaskRows, windows: Windows, confidence: float) -> tuple[list[Moved], int]:
    late = windows.ids >= _halfway(rows, windows)
    halves = [_halves(rows, field, late) for field in rows.fields]
    flags = joint_discoveries([half.p_values for half in halves], 1.0 - confidence)
    found = [
        Moved(
            field.name,
            half.values[place],
            float(half.first.observed[place] + half.second.observed[place]),
            float(half.first.pcoc[place]),
            float(half.second.pcoc[place]),
            float(half.p_values[place]),
        )
        for field, half, flagged in zip(rows.fields, halves, flags, strict=True)
        for place in np.flatnonzero(flagged)
    ]
    found.sort(key=lambda moved: (moved.p_value, -moved.observed))
    return found, sum(len(half.values) for half in halves)


def _halfway(rows: TaskRows, windows: Windows) -> int:
    positives = np.bincount(windows.ids, weights=rows.labels, minlength=windows.n_windows)
    return int(np.searchsorted(np.cumsum(positives), positives.sum() / 2.0)) + 1


def _halves(rows: TaskRows, field: FieldColumn, late: Any) -> _Halves:
    ids = (field.ids + field.n_values * late).astype(np.int32)
    both = rows.cells(ids, 2 * field.n_values, rows.dispersion(ids)).after
    first, second = both.take(slice(0, field.n_values)), both.take(slice(field.n_values, None))
    places = np.flatnonzero((first.observed >= LEAST_OBSERVED) & (second.observed >= LEAST_OBSERVED))
    first, second = first.take(places), second.take(places)
    # given both halves' positives together, the first half's share is binomial if PCOC did not move
    trials = (first.observed + second.observed) / first.effective_weight
    expected = trials * first.predicted / (first.predicted + second.predicted)
    counts = MatchedCounts(first.observed / first.effective_weight, expected, trials)
    return _Halves(tuple(field.values[place] for place in places), first, second, two_sided_p_value(counts))
