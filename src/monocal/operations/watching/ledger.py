"""What is known so far: the wealth of every bet, in memory and as arrays for the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.spaces import Floats
from monocal.operations.watching.budget import scope_share, value_shares
from monocal.operations.watching.evidence import N_BETS, begun, next_wealth, start_log_stake, total_log_wealth
from monocal.operations.watching.period_sums import TOTALS, CellSums


@final
@dataclass(eq=False)
class Chart:
    """The bets of one chart on every slice of one scope.

    Attributes:
        wealth: Log wealth, `(cells, bets)`.
        since: The period from which on the evidence counts most.
        totals: Sums of the rows since then.
    """

    wealth: Floats
    since: NDArray[np.int64]
    totals: Floats


@final
@dataclass(eq=False)
class Scope:
    """All rows of a task, or the values of one field.

    Attributes:
        share: Its share of the false-alarm rate, for each chart.
        n_first: Values in the first period.
        places: Value to its row in the arrays, in the order of first appearance.
        charts: Chart to its bets.
    """

    share: float
    n_first: int = 0
    places: dict[str, int] = field(default_factory=dict)
    charts: dict[str, Chart] = field(default_factory=dict)

    @classmethod
    def new(cls, share: float) -> Self:
        charts = {
            chart: Chart(np.zeros((0, n)), np.zeros(0, dtype=np.int64), np.zeros((0, len(TOTALS))))
            for chart, n in N_BETS.items()
        }
        return cls(share, charts=charts)

    def log_limits(self, false_alarm_rate: float) -> Floats:
        """Returns the log wealth at which each slice raises an alarm."""
        shares = value_shares(len(self.places), self.n_first) if self.places.keys() != {""} else np.ones(1)
        return -np.log(false_alarm_rate * self.share * shares)

    def add(self, cells: CellSums, period: int, number: int, false_alarm_rate: float) -> None:
        """Takes in period t, which has this number."""
        self._make_room(cells.values, period - 1, number)
        at = np.array([self.places[value] for value in cells.values])
        limits = self.log_limits(false_alarm_rate)
        for name, chart in self.charts.items():
            fresh = chart.wealth.max(axis=1) < start_log_stake(period)
            chart.since[fresh] = number
            chart.totals[fresh] = 0.0
            chart.totals[at] += cells.totals
            growth = np.zeros_like(chart.wealth)
            growth[at] = cells.growth[name]
            # one bet alone at its bound makes e times the limit
            chart.wealth = next_wealth(chart.wealth, growth, period, limits + np.log(N_BETS[name]) + 1.0)

    def _make_room(self, values: list[str], n_periods: int, number: int) -> None:
        new = [value for value in values if value not in self.places]
        if not self.places:
            self.n_first = len(new)
        for value in new:
            self.places[value] = len(self.places)
        for chart in self.charts.values():
            fresh = begun(len(new), chart.wealth.shape[1], n_periods)
            chart.wealth = np.concatenate([chart.wealth, fresh])
            chart.since = np.append(chart.since, np.full(len(new), number))
            chart.totals = np.concatenate([chart.totals, np.zeros((len(new), len(TOTALS)))])


@final
@dataclass(eq=False)
class Ledger:
    """Everything that is kept between two days.

    Attributes:
        settings: What the watch was begun with; it cannot change on the way.
        periods: Numbers of the periods that were read, in order.
        scopes: Task to "" (all rows) or field to its slices.
    """

    settings: dict[str, Any]
    periods: list[int]
    scopes: dict[str, dict[str, Scope]]

    @classmethod
    def begin(cls, settings: Mapping[str, Any]) -> Self:
        """Returns an empty ledger.

        Arguments:
            settings: `tasks`, `by`, `false_alarm_rate`, and whatever else must stay the same.
        """
        tasks, by = settings["tasks"], settings["by"]
        scopes = {
            task: {name: Scope.new(scope_share(len(tasks), len(by), is_overall=not name)) for name in ("", *by)}
            for task in tasks
        }
        return cls(dict(settings), [], scopes)

    def add(self, number: int, cells: Mapping[str, Mapping[str, CellSums]]) -> None:
        """Takes in one period, which is later than all before."""
        self.periods.append(number)
        nothing = CellSums([], np.zeros((0, len(TOTALS))), {chart: np.zeros((0, n)) for chart, n in N_BETS.items()})
        for task, scopes in self.scopes.items():
            for name, scope in scopes.items():
                found = cells.get(task, {}).get(name, nothing)
                scope.add(found, len(self.periods), number, self.settings["false_alarm_rate"])

    def log_wealth(self, task: str, scope: str, chart: str) -> Floats:
        """Returns the log wealth of every slice of one chart."""
        return total_log_wealth(self.scopes[task][scope].charts[chart].wealth, len(self.periods))
