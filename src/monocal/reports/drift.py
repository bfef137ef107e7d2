"""Predicted over observed positives through time: does the forecast grow stale, and where?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from monocal.core.fields import Ids
from monocal.core.numbers import value_text
from monocal.core.scores import Floats
from monocal.evaluation.cells import Cells, dispersion_of, sum_cells
from monocal.evaluation.result import Evaluation
from monocal.evaluation.stats import MatchedCounts, Spread, joint_discoveries, levelled, spread_of, two_sided_p_value
from monocal.metrics import Forecast
from monocal.metrics.drift import StabilityIndex
from monocal.tables.categories import EncodedColumn
from monocal.tables.table import Table

MOST_WINDOWS = 40
ROW_WINDOWS = 24
LEAST_OBSERVED = 5.0
"""A value is compared between the halves of the period if each holds this many positives."""
_LENGTHS = {
    n * seconds: f"{n} {unit}{'s' if n > 1 else ''}"
    for unit, seconds, counts in (
        ("minute", 60, (1, 5, 15, 30)),
        ("hour", 3600, (1, 2, 3, 6, 12)),
        ("day", 86_400, (1, 2, 7, 14, 30, 91, 365)),
    )
    for n in counts
}
"""Seconds to words, from the shortest window to the longest."""
_EPOCH_UNITS = ((1, 1e8, 5e9), (1_000, 1e11, 5e12), (1_000_000, 1e14, 5e15))
"""Whole numbers between 1973 and 2128 when read as seconds, milliseconds or microseconds since 1970."""


@final
@dataclass(frozen=True, eq=False)
class Windows:
    """Rows cut into stretches of time.

    Attributes:
        ids: The window of each row.
        starts: The start of each window: seconds since 1970 if `calendar`, else its first row or moment.
        calendar: Whether starts are moments of the calendar.
        length: The length in words, such as "1 day".
        kind: What was cut, in words, for a caption.
    """

    ids: Ids
    starts: Floats
    calendar: bool
    length: str
    kind: str

    @property
    def n_windows(self) -> int:
        return int(self.starts.shape[0])

    def label(self, window: int) -> str:
        """Returns the start of a window for people.

        Example:
            >>> cut_windows(np.arange(0, 3 * 86_400, 3600) + 1_700_006_400, n_rows=72, time_is_calendar=False).label(1)
            '2023-11-15 02:00'
        """
        start = float(self.starts[window])
        if not self.calendar:
            return f"{start:,.0f}"
        moment = datetime.fromtimestamp(start, UTC)
        return moment.strftime("%Y-%m-%d" if self.length.endswith(("day", "days")) else "%Y-%m-%d %H:%M")


def cut_windows(
    times: NDArray[np.int64] | None, n_rows: int, *, time_is_calendar: bool, n_positive: float = np.inf
) -> Windows:
    """Cuts rows into at most 40 windows of a round length; without a time column, into 24 of equally many rows.

    Arguments:
        times: Microseconds since 1970 if `time_is_calendar`, else whole numbers.
        n_rows: How many rows there are.
        time_is_calendar: Whether the column's type says that it holds moments.
        n_positive: Positives among the rows; windows are widened until they hold about ten each.
    """
    affordable = int(np.clip(n_positive / 10.0, 2, MOST_WINDOWS))
    if times is None:
        n_windows = max(1, min(ROW_WINDOWS, affordable, n_rows))
        ids = (np.arange(n_rows, dtype=np.int64) * n_windows // n_rows).astype(np.int32)
        return _used(ids, np.floor(np.arange(n_windows) * n_rows / n_windows), False, "", "rows in the table's order")
    per_second = 1_000_000 if time_is_calendar else _epoch_unit(times)
    if per_second is None:
        low, high = int(times.min()), int(times.max())
        n_windows = min(ROW_WINDOWS, affordable, high - low + 1)
        step = (high - low + 1) / n_windows
        ids = np.minimum(((times - low) / step).astype(np.int32), n_windows - 1)
        return _used(ids, low + step * np.arange(n_windows), False, "", "the time column's own unit")
    seconds = times // per_second
    span = int(seconds.max() - seconds.min()) + 1
    length = next((seconds for seconds in _LENGTHS if span / seconds <= affordable), max(_LENGTHS))
    first = int(seconds.min()) // length
    ids = (seconds // length - first).astype(np.int32)
    starts = (first + np.arange(int(ids.max()) + 1)) * float(length)
    return _used(ids, starts, True, _LENGTHS[length], "UTC")


def _used(ids: Ids, starts: NDArray[Any], calendar: bool, length: str, kind: str) -> Windows:
    filled = np.flatnonzero(np.bincount(ids, minlength=starts.shape[0]))
    renumber = np.zeros(starts.shape[0], dtype=np.int32)
    renumber[filled] = np.arange(filled.shape[0], dtype=np.int32)
    return Windows(renumber[ids], starts[filled].astype(np.float64), calendar, length, kind)


def _epoch_unit(times: NDArray[np.int64]) -> int | None:
    low, high = int(times.min()), int(times.max())
    return next((per_second for per_second, least, most in _EPOCH_UNITS if low >= least and high <= most), None)


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
    lines: dict[str, DriftLine]
    moved: list[Moved]
    n_values: int
    score_shift: StabilityIndex


def drift(rows: Table, metrics: Evaluation, score_shift: StabilityIndex, n_moved: int = 10) -> Drift:
    """Follows PCOC through time windows and compares the two halves of the period value by value.

    Arguments:
        rows: The rows that were evaluated.
        metrics: Their evaluation; fields of which it has every value are compared.
        score_shift: See `shift_since_fit`.
        n_moved: How many values that moved are kept.
    """
    after, confidence = metrics.rows, metrics.confidence
    windows = cut_windows(rows.times, after.n_rows, time_is_calendar=rows.has_dates, n_positive=after.n_positive)
    dispersion = dispersion_of(after, windows.ids)
    lines = {}
    for stage, found in metrics.stages.items():
        cells = sum_cells(found.rows, windows.ids, windows.n_windows, dispersion=dispersion)
        level = levelled(cells.counts)
        interval = cells.interval(confidence)
        lines[stage] = DriftLine(cells, *interval, spread_of(level), _trend(level, windows.starts, confidence))
    moved, n_values = _moved(after, windows, {name: rows.fields[name] for name in metrics.by}, confidence)
    return Drift(windows, lines, moved[:n_moved], n_values, score_shift)


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


def _moved(
    forecast: Forecast, windows: Windows, fields: Mapping[str, EncodedColumn], confidence: float
) -> tuple[list[Moved], int]:
    positives = np.bincount(windows.ids, weights=forecast.labels, minlength=windows.n_windows)
    late = windows.ids > np.searchsorted(np.cumsum(positives), positives.sum() / 2.0)
    tested = [_halves(forecast, name, column, late) for name, column in fields.items()]
    flags = joint_discoveries([np.array([moved.p_value for moved in values]) for values in tested], 1.0 - confidence)
    found = [
        moved
        for values, flagged in zip(tested, flags, strict=True)
        for moved, is_off in zip(values, flagged, strict=True)
        if is_off
    ]
    found.sort(key=lambda moved: (moved.p_value, -moved.observed))
    return found, sum(len(values) for values in tested)


def _halves(forecast: Forecast, name: str, column: EncodedColumn, late: NDArray[np.bool_]) -> list[Moved]:
    """Compares the values that both halves of the period hold often enough."""
    n_values = int(column.ids.max()) + 1
    ids = column.ids + n_values * late
    both = sum_cells(forecast, ids, 2 * n_values, dispersion=dispersion_of(forecast, ids))
    first, second = both.take(slice(0, n_values)), both.take(slice(n_values, None))
    places = np.flatnonzero((first.observed >= LEAST_OBSERVED) & (second.observed >= LEAST_OBSERVED))
    first, second = first.take(places), second.take(places)
    # given both halves' positives together, the first half's share is binomial if PCOC did not move
    trials = (first.observed + second.observed) / first.effective_weight
    expected = trials * first.predicted / (first.predicted + second.predicted)
    p_values = two_sided_p_value(MatchedCounts(first.observed / first.effective_weight, expected, trials))
    numbers = np.stack([first.observed + second.observed, first.pcoc, second.pcoc, p_values], axis=1).tolist()
    values = map(value_text, column.decode(places))
    return [Moved(name, value, *row) for value, row in zip(values, numbers, strict=True)]
