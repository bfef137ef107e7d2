"""Is a model in use still calibrated, day after day, at a stated rate of false alarms?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack, final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.files import turn_in
from monocal.core.numbers import DAY, duration_of
from monocal.core.scores import Floats
from monocal.evaluation.cells import Cells
from monocal.metrics.drift import Expected, StabilityIndex, expected_performance, shift_since_fit
from monocal.models.facts import known_delays
from monocal.models.model import Model
from monocal.monitoring.ledger import N_BETS, STATE_FOLDER, Ledger, PeriodSums, read_state, sums_by_period, write_state
from monocal.tables.roles import Columns, Roles, columns_of
from monocal.tables.source import TableLike, open_table
from monocal.tables.split import binned
from monocal.tables.table import Table

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
        cells = Cells(*np.array([[n], [1.0], [observed], [predicted], [squares]]))
        pcoc, low, high = (float(number[0]) for number in (cells.pcoc, *cells.interval(CONFIDENCE)))
        n_or_nan = n if n > 0.0 else float("nan")
        return cls(int(n), observed, predicted, pcoc, low, high, loss / n_or_nan, expected / n_or_nan)


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
        return {"is_alarmed": self.is_alarmed, **asdict(self), "days": [_plain_day(day) for day in self.days]}


def _plain_day(day: Day) -> dict[str, Any]:
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


def alarms_of(ledger: Ledger) -> list[Alarm]:
    """Returns the charts whose wealth is at or above its limit after the last period."""
    settings = ledger.settings
    names = {"length": settings["every"], "has_dates": settings["time_is_calendar"]}
    found = []
    for task, scopes in ledger.scopes.items():
        for field, scope in scopes.items():
            if not scope.places:
                continue
            limits = scope.log_limits(settings["false_alarm_rate"])
            values = list(scope.places)
            for chart, bets in scope.charts.items():
                wealth = ledger.log_wealth(task, field, chart)
                found += [
                    Alarm(
                        task,
                        chart,
                        field,
                        values[at],
                        period_name(ledger.periods[-1], **names),
                        period_name(int(bets.since[at]), **names),
                        Calibration.of(bets.totals[at]),
                        float(wealth[at] / math.log(10.0)),
                        float(limits[at] / math.log(10.0)),
                    )
                    for at in np.flatnonzero(wealth >= limits)
                ]
    return found


def watch(
    model: Model,
    table: TableLike,
    roles: Roles | None = None,
    *,
    by: Sequence[str] = (),
    state: str | Path | None = None,
    every: str | None = None,
    false_alarm_rate: float = 0.05,
    tolerance: float = 0.05,
    max_unseen: float | None = None,
    max_drift: float | None = None,
    since: str | None = None,
    until: str | None = None,
    **columns: Unpack[Columns],
) -> Watch:
    r"""Reads the days of a table and says whether the model is still calibrated, overall and by slice.

    The promise: if, given all that is known before a row's label, the probability of a positive is within a factor
    :math:`1 + \text{tolerance}` of the forecast in every row, then the chance of *any* alarm in any chart, on any day
    from the first to the last of the watch, is at most `false_alarm_rate` (see `monocal.monitoring.ledger`).
    Rows that depend on each other beyond the forecast, such as many rows of one user whose taste it does not know, are
    not covered.

    Before labels arrive (a null label, or no label column) a day shows what the forecast expects of itself, which is
    true as far as it is calibrated; such a day is not kept and is read again when its labels are there.

    Arguments:
        model: The model in use; it may be another one than on the day before.
        table: Rows with scores, fields, the time, and labels. Every day is read once; one that was read is refused.
        roles: Which column is what, or the same by name; the time is needed, and what is not named is as in the fit.
        by: Columns of which every value is a slice with charts of its own.
        state: Folder in which the watch is kept from run to run; None keeps nothing.
        every: The length of a period, such as "1d" or "12h"; a number if the time column holds numbers. A day, or 1.
        false_alarm_rate: The promised chance of any false alarm, in (0, 1).
        tolerance: How far off the forecast may be without being wrong: 0.05 is five per cent.
        max_unseen: A larger share of unseen values of a field is an alarm, too; no part of the promise.
        max_drift: A larger stability index of the scores, beyond its noise, is an alarm, too; likewise.
        since: Rows before this moment are left out.
        until: Rows at or after this moment are left out, such as a day that is not over.
        columns: In place of roles: `time`, `label`, `sampling_rate` and others. With `label_time` and `window` labels
            are held against the probability that they have come by now; the promise takes the delays as known.

    Example:
        A model watched on days like those of its fit, and on days on which half of the labels were lost:

        >>> import monocal
        >>> log = monocal.simulate_log(40_000, seed=1).table()
        >>> model = monocal.fit(log, method="platt", score="pctr", label="click")
        >>> watch(model, log, time="timestamp", every="86400").alarms
        ()
        >>> lost = {**log.to_pydict(), "click": log["click"].to_numpy() * (np.arange(40_000) % 2)}
        >>> found = watch(model, lost, time="timestamp", every="86400")
        >>> [(alarm.chart, alarm.where, round(alarm.calibration.pcoc)) for alarm in found.alarms]
        [('pcoc', 'all rows', 2)]
    """
    for argument, value, top in (("false_alarm_rate", false_alarm_rate, 1.0), ("tolerance", tolerance, math.inf)):
        if not 0.0 <= value < top or (value == 0.0 and argument == "false_alarm_rate"):
            raise InvalidInput.of(argument, value, "a number such as 0.05", "use 0.05")
    if state is not None:
        state = STATE_FOLDER.check_target(state, "state")
    given = columns_of(watch, roles, columns)
    time = given.get("time") or given.get("event_time")
    if time is None:
        raise InvalidInput.of("time", None, "the column that says when a row happened", 'pass time="…"')
    stream = open_table(table)
    model.check_columns(stream.column_names)
    late = {"event_time": time} if {"label_time", "window"} & given.keys() else {}
    parts = model.roles(**{**given, **late, "time": time, "soft_labels": False, "slices": by})
    is_as_fitted = all(parts.labels[task.name] == task.label for task in model.tasks if task.name in parts.labels)
    delays = known_delays(model)
    rows = Table.read(stream, parts, since=since, until=until, delays=delays, unlabelled=is_as_fitted)
    rows = rows.in_time_order()
    length = duration_of(every, has_dates=rows.has_dates, argument="every") if every else DAY if rows.has_dates else 1
    forecasts = {task: rows.arrived(p) for task, p in model.predict_rows(rows).items()}
    by = tuple(rows.roles.slices)
    periods = list(sums_by_period(binned(rows, model.vocabulary), forecasts, by=by, length=length, tolerance=tolerance))
    days = tuple(_day(model, rows, forecasts, period, length) for period in periods)
    settings = {
        "tasks": list(forecasts),
        "by": list(by),
        "false_alarm_rate": false_alarm_rate,
        "tolerance": tolerance,
        "every": length,
        "time_is_calendar": rows.has_dates,
    }
    ledger, alarms = _keep(state, settings, [period for period in periods if period.cells])
    n_charts = len(N_BETS) * sum(len(scope.places) for scopes in ledger.scopes.values() for scope in scopes.values())
    beyond = tuple(_beyond(days, max_unseen, max_drift))
    return Watch(days, alarms, beyond, len(ledger.periods), n_charts, false_alarm_rate, tolerance)


def _day(model: Model, rows: Table, forecasts: Mapping[str, Floats], period: PeriodSums, length: int) -> Day:
    part = rows.take(period.rows)
    unseen = {}
    for name in model.field_names:
        column = part.fields[name]
        unseen[name] = float(np.mean(model.vocabulary[name].encode(column.known_values)[column.ids] == 0))
    return Day(
        period_name(period.number, length, has_dates=rows.has_dates),
        part.n_rows,
        {task: Calibration.of(cells[""].totals[0]) for task, cells in period.cells.items()},
        {task: expected_performance(forecast[period.rows]) for task, forecast in forecasts.items()},
        unseen,
        {task: shift_since_fit(model.info.get("tasks", {}).get(task, {}), part.logits(task)) for task in forecasts},
    )


def _keep(state: Path | None, settings: dict[str, Any], periods: list[PeriodSums]) -> tuple[Ledger, tuple[Alarm, ...]]:
    """Adds the periods to the state, if there is one, and returns the alarms of all of them."""
    if state is not None:
        state.resolve().parent.mkdir(parents=True, exist_ok=True)
    with nullcontext() if state is None else turn_in(state.resolve().parent):
        known = state is not None and STATE_FOLDER.is_at(state)
        ledger = read_state(state) if state is not None and known else Ledger.begin(settings)
        _check(ledger, settings, periods)
        found: dict[tuple[str, str, str, str], Alarm] = {}
        for period in periods:
            ledger.add(period.number, period.cells)
            found |= {(alarm.task, alarm.chart, alarm.field, alarm.value): alarm for alarm in alarms_of(ledger)}
        if state is not None and periods:
            write_state(ledger, state)
    order = sorted(found.values(), key=lambda alarm: alarm.log10_limit - alarm.log10_evidence)
    return ledger, tuple(order)


def _check(ledger: Ledger, settings: dict[str, Any], periods: list[PeriodSums]) -> None:
    for name, value in settings.items():
        if ledger.settings[name] != value:
            raise InvalidInput.of(
                name,
                value,
                f"{ledger.settings[name]}, with which this watch was begun",
                "go on with that, or begin a new watch with another state=",
            )
    names = {"length": settings["every"], "has_dates": settings["time_is_calendar"]}
    if ledger.periods and periods and periods[0].number <= ledger.periods[-1]:
        last = ledger.periods[-1]
        seen = "was read before" if periods[0].number in ledger.periods else "is older than what was read"
        raise InvalidInput.of(
            "table",
            f"rows of {period_name(periods[0].number, **names)}, which {seen}",
            f"rows after {period_name(last, **names)} only",
            f'leave the others out with since="{period_name(last + 1, **names)}"',
        )


def _beyond(days: Sequence[Day], max_unseen: float | None, max_drift: float | None) -> list[str]:
    found = []
    for day in days:
        for name, share in day.unseen.items():
            if max_unseen is not None and share > max_unseen:
                found.append(f"{day.period}: {share:.1%} of the values of {name} are unseen, limit {max_unseen:.1%}")
        for task, index in day.drift.items():
            if max_drift is not None and index.value - index.noise > max_drift:
                found.append(f"{day.period}: scores of {task} drifted by {index.value:.3f}, limit {max_drift:g}")
    return found
