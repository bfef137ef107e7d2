"""Which charts of a ledger have left what chance allows."""

from __future__ import annotations

import math

import numpy as np

from monocal.operations.watching.findings import Alarm, Calibration, period_name
from monocal.operations.watching.ledger import Ledger


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
