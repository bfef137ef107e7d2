"""What a watch has found: the days, and the alarms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, final

import numpy as np

from monocal.core.durations import DAY
from monocal.core.spaces import Floats
from monocal.judging.cells import Cells
from monocal.metrics.stability_index import StabilityIndex
from monocal.operations.watching.expected import Expected

CONFIDENCE = 0.95


@final
@dataclass(frozen=True)
class Calibration:
    """Forecast and labels of some rows.

    Attributes:
        n_rows: Labelled rows.
        observed: Positives.
        predicted: Their forecast.
        pcoc: Predicted over observed; NaN without a positive.
        pcoc_low: Lower end of its interval, for these rows taken alone.
        pcoc_high: Upper end.
        log_loss: Mean log-loss.
        expected_log_loss: What the forecast itself expects.
    """

    n_rows: int
    observed: float
    predicted: float
    pcoc: float
    pcoc_low: float
    pcoc_high: float
    log_loss: float
    expected_log_loss: float

    @classmethod
    def of(cls, totals: Floats) -> Calibration:
        """Returns what follows from sums in the order of `TOTALS`."""
        n, observed, predicted, squares, loss, expected = (float(total) for total in totals)
        each = np.array([[n], [1.0], [observed], [predicted], [squares]])
        cells = Cells(*each)
        low, high = cells.interval(CONFIDENCE)
        n_or_nan = n if n > 0.0 else float("nan")
        pcoc = float(cells.pcoc[0])
        return cls(
            int(n), observed, predicted, pcoc, float(low[0]), float(high[0]), loss / n_or_nan, expected / n_or_nan
        )


@final
@dataclass(frozen=True)
class Alarm:
    """One chart of one slice that has left what chance allows.

    Attributes:
        task: The task.
        chart: "pcoc" or "log_loss".
        field: The field of the slice; empty for all rows.
        value: Its value; empty for all rows.
        period: The last period in which the alarm stood.
        since: The period from which on the evidence counts most.
        calibration: Forecast and labels of the slice since then.
        log10_evidence: Wealth of the chart's bets, as a power of ten.
        log10_limit: Where the alarm begins.
    """

    task: str
    chart: str
    field: str
    value: str
    period: str
    since: str
    calibration: Calibration
    log10_evidence: float
    log10_limit: float

    @property
    def where(self) -> str:
        return f"{self.field} = {self.value}" if self.field else "all rows"


@final
@dataclass(frozen=True)
class Day:
    """One period of the table.

    Attributes:
        period: Its beginning.
        n_rows: Rows.
        calibration: Task to forecast and labels; a task without labels is left out.
        expected: Task to what the forecast expects of itself.
        unseen: Field to the share of rows whose value the model has not seen.
        drift: Task to how far scores have moved since the fit.
    """

    period: str
    n_rows: int
    calibration: Mapping[str, Calibration]
    expected: Mapping[str, Expected]
    unseen: Mapping[str, float]
    drift: Mapping[str, StabilityIndex]


@final
@dataclass(frozen=True)
class Watch:
    """What one run has found.

    Attributes:
        days: The periods of the table.
        alarms: Charts that have left what chance allows, the strongest evidence first.
        beyond: Shares of unseen values and score drifts beyond the limits that were given, as sentences.
        n_periods: Periods with labels since the watch began.
        n_charts: Charts that are kept.
        false_alarm_rate: The promised rate over all charts and all time.
        tolerance: The tolerance that the promise refers to.
    """

    days: tuple[Day, ...]
    alarms: tuple[Alarm, ...]
    beyond: tuple[str, ...]
    n_periods: int
    n_charts: int
    false_alarm_rate: float
    tolerance: float

    @property
    def is_alarmed(self) -> bool:
        return bool(self.alarms or self.beyond)

    def as_dict(self) -> dict[str, Any]:
        return {"is_alarmed": self.is_alarmed, **asdict(self), "days": [_day(day) for day in self.days]}


def _day(day: Day) -> dict[str, Any]:
    return {
        **asdict(day),
        "expected": {task: figures._asdict() for task, figures in day.expected.items()},
        "drift": {task: figures._asdict() for task, figures in day.drift.items()},
    }


def period_name(number: int, length: int, *, has_dates: bool) -> str:
    """Returns the beginning of a period as people write it.

    Example:
        >>> period_name(19_844, DAY, has_dates=True), period_name(3, 7, has_dates=False)
        ('2024-05-01', '21')
    """
    if not has_dates:
        return str(number * length)
    moment = datetime.fromtimestamp(number * length / 1e6, UTC)
    return moment.date().isoformat() if length % DAY == 0 else moment.replace(tzinfo=None).isoformat("T", "minutes")
