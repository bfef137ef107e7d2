"""Shifts that the ranker missed and that do not all last: some persist, some are over with their period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.scores import Floats
from monocal.lab.simulator.distortions import FieldSpace, Shift
from monocal.lab.simulator.draws import random_stream
from monocal.lab.simulator.field_distortions import value_table


@final
@dataclass(frozen=True)
class Lasting:
    """How the shifts of one field's values move over time, as standard deviations in logits.

    Arguments:
        name: The field.
        persistent: Of the part that stays from the first row to the last.
        transient: Of the part that is drawn anew for every value and period: a shock that the value's rows share.
        walk: Of the step from one period to the next of a random walk that starts at 0.
    """

    name: str
    persistent: float = 0.0
    transient: float = 0.0
    walk: float = 0.0

    def persistent_share(self, n_periods: int) -> float:
        r"""Returns how much of an effect averaged over some periods stays in later ones, without a walk.

        .. math:: \frac{\sigma_p^2}{\sigma_p^2 + \sigma_t^2 / n}

        Example:
            >>> Lasting("store", persistent=0.3, transient=0.6).persistent_share(4)
            0.5
        """
        lasting = self.persistent**2
        passing = self.transient**2 / n_periods
        return lasting / (lasting + passing) if lasting + passing > 0.0 else 0.0


@dataclass(frozen=True)
class DriftTables:
    """Drawn tables: one row per period, for the level and for every field's values."""

    level: Floats
    shifts: Mapping[int, Floats]


@final
@dataclass(frozen=True)
class Drifting(Shift):
    r"""Adds shifts that move from period to period: :math:`z_{score} = z_{true} + u_t + \sum_f \beta_{f,t}[x_f]`.

    In a world that draws the score, the score is a ranker's from before the log began and the truth moves away from it;
    the true probability of every row is known all the same. Every shift of a value within a period is one draw, shared
    by all its rows, however many.

    Arguments:
        fields: How each field's shifts move.
        n_periods: Into how many periods of equal length the log falls.
        level_walk: Standard deviation of the level's step from one period to the next.
        level_shock: Standard deviation of what the level adds in one period alone.
    """

    fields: tuple[Lasting, ...]
    n_periods: int = 28
    level_walk: float = 0.0
    level_shock: float = 0.0

    def __post_init__(self) -> None:
        if self.n_periods < 1:
            raise InvalidInput.of("Drifting.n_periods", self.n_periods, "at least one period", "use one per day")

    def period_of(self, elapsed: Floats) -> Ids:
        """Returns the number of the period, from 0, at each share of the log's time."""
        periods: Ids = np.minimum(elapsed * self.n_periods, self.n_periods - 1).astype(np.int32)
        return periods

    def _draw(self, space: FieldSpace) -> DriftTables:
        random = random_stream(*space.key, "level")
        level = self.level_walk * np.cumsum(random.standard_normal(self.n_periods))
        level += self.level_shock * random.standard_normal(self.n_periods)
        return DriftTables(level, {space.index(field.name): self._shifts(field, space) for field in self.fields})

    def _shifts(self, field: Lasting, space: FieldSpace) -> Floats:
        place = space.index(field.name)
        table = np.tile(field.persistent * value_table(space, place, "persistent"), (self.n_periods, 1))
        passing = random_stream(*space.key, "passing", field.name)
        table += field.transient * passing.standard_normal(table.shape)
        table += field.walk * np.cumsum(passing.standard_normal(table.shape), axis=0)
        table[:, 0] = 0.0
        return table

    def _shift(self, features: Ids, elapsed: Floats, drawn: DriftTables) -> Floats:
        period = self.period_of(elapsed)
        total: Floats = drawn.level[period]
        for place, table in drawn.shifts.items():
            total = total + table[period, features[:, place]]
        return total
