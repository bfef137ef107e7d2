"""One run of a watch: the table's new days are read, added to the state, and judged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from monocal.core.durations import DAY, duration_of
from monocal.core.errors import InvalidInput
from monocal.core.locks import alone_in
from monocal.core.spaces import Floats
from monocal.metrics.stability_index import StabilityIndex, stability_index
from monocal.models.late import known_delays
from monocal.models.model import Model
from monocal.operations.watching.alarms import alarms_of
from monocal.operations.watching.evidence import N_BETS
from monocal.operations.watching.expected import expected_performance
from monocal.operations.watching.findings import Alarm, Calibration, Day, Watch, period_name
from monocal.operations.watching.ledger import Ledger
from monocal.operations.watching.period_sums import PeriodSums, sums_by_period
from monocal.operations.watching.state_folder import STATE_FOLDER, read_state, write_state
from monocal.tables.late_labels import read_mature
from monocal.tables.rows import Rows
from monocal.tables.stream import Table, open_table
from monocal.vocabulary.bins import binned


def watch(
    model: Model,
    table: Table,
    *,
    time: str,
    by: Sequence[str] = (),
    label: str | Mapping[str, str] | None = None,
    state: str | Path | None = None,
    every: str | None = None,
    false_alarm_rate: float = 0.05,
    tolerance: float = 0.05,
    max_unseen: float | None = None,
    max_drift: float | None = None,
    since: str | None = None,
    until: str | None = None,
    sampling_rate: float | str | None = None,
    label_time: str | None = None,
    window: str | None = None,
) -> Watch:
    r"""Reads the days of a table and says whether the model is still calibrated, overall and by slice.

    The promise: if, given all that is known before a row's label, the probability of a positive is within a factor
    :math:`1 + \text{tolerance}` of the forecast in every row, then the chance of *any* alarm in any chart, on any day
    from the first to the last of the watch, is at most `false_alarm_rate` (see `monocal.operations.watching.evidence`).
    Rows that depend on each other beyond the forecast, such as many rows of one user whose taste it does not know, are
    not covered.

    Before labels arrive (a null label, or no label column) a day shows what the forecast expects of itself, which is
    true as far as it is calibrated; such a day is not kept and is read again when its labels are there.

    Arguments:
        model: The model in use; it may be another one than on the day before.
        table: Rows with scores, fields, the time, and labels. Every day is read once; one that was read is refused.
        time: Column that says when a row happened.
        by: Columns of which every value is a slice with charts of its own.
        label: Another label column than that of the fit: one, or task to column.
        state: Folder in which the watch is kept from run to run; None keeps nothing.
        every: The length of a period, such as "1d" or "12h"; a number if the time column holds numbers. A day, or 1.
        false_alarm_rate: The promised chance of any false alarm, in (0, 1).
        tolerance: How far off the forecast may be without being wrong: 0.05 is five per cent.
        max_unseen: A larger share of unseen values of a field is an alarm, too; no part of the promise.
        max_drift: A larger stability index of the scores, beyond its noise, is an alarm, too; likewise.
        since: Rows before this moment are left out.
        until: Rows at or after this moment are left out, such as a day that is not over.
        sampling_rate: Another sampling rate than that of the fit.
        label_time: Column that says when a positive label came, where labels may still come. Labels are then held
            against the probability that they have come by now; the promise takes the delays as known.
        window: How long after its event a label counts.

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
    columns: dict[str, Any] = {"sampling_rate": sampling_rate, "soft_labels": False, "time": time, "slices": by}
    columns |= {"event_time": time if label_time or window else None, "label_time": label_time, "window": window}
    stream = open_table(table)
    model.check_columns(stream.column_names)
    roles = model.roles(label, **columns)
    rows, _ = read_mature(stream, roles, since=since, until=until, curve=known_delays(model), unlabelled=label is None)
    rows = rows.in_time_order()
    length = duration_of(every, has_dates=rows.has_dates, argument="every") if every else DAY if rows.has_dates else 1
    forecasts = {task: rows.arrived(p) for task, p in model.predict_rows(rows).items()}
    by = rows.roles.slices
    judged = binned(rows, model.vocabulary)
    periods = list(sums_by_period(judged, forecasts, by=by, length=length, tolerance=tolerance))
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


def _day(model: Model, rows: Rows, forecasts: Mapping[str, Floats], period: PeriodSums, length: int) -> Day:
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
        {task: _drift(model, part, task) for task in forecasts},
    )


def _drift(model: Model, rows: Rows, task: str) -> StabilityIndex:
    facts = model.info.get("tasks", {}).get(task, {})
    if "score_edges_logit" not in facts:
        return StabilityIndex(math.nan, math.nan)
    shares = np.asarray(facts["score_shares"], dtype=np.float64)
    places = np.searchsorted(np.asarray(facts["score_edges_logit"], dtype=np.float64), rows.logits(task))
    return stability_index(shares * facts["n_rows"], np.bincount(places, minlength=shares.size))


def _keep(state: Path | None, settings: dict[str, Any], periods: list[PeriodSums]) -> tuple[Ledger, tuple[Alarm, ...]]:
    """Adds the periods to the state, if there is one, and returns the alarms of all of them."""
    if state is not None:
        state.resolve().parent.mkdir(parents=True, exist_ok=True)
    with nullcontext() if state is None else alone_in(state.resolve().parent):
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
