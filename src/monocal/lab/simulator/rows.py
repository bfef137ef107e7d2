"""Drawing rows block by block, so that a stream of any batch size yields the same log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.lab.simulator.fields import draw_power_law
from monocal.lab.simulator.seeds import random_stream
from monocal.lab.simulator.worlds import World

BLOCK_ROWS = 16_384
"""Rows that share one random stream; a block's arrays stay in the processor's cache."""

FIRST_SECOND = 1_767_225_600
"""Logs start on 1 January 2026, midnight UTC."""

_FIRST_WEEKDAY = 3  # a Thursday

_DAILY_RHYTHM = 1.0 + 0.6 * np.sin((np.arange(24) - 9.0) * (2.0 * np.pi / 24.0))


@dataclass(frozen=True)
class Rows:
    """A block of impressions before anybody reacted.

    Attributes:
        features: Field ids `(n, F)`.
        users: User ids, from 1.
        times: Seconds since 1970, rising.
        elapsed: Share of the log's time that has passed.
        click_uniforms: Decides the click.
        watch_uniforms: Decides what follows a click.
    """

    features: Ids
    users: Ids
    times: NDArray[np.int64]
    elapsed: Floats
    click_uniforms: Floats
    watch_uniforms: Floats


@final
@dataclass(frozen=True)
class RowSource:
    """Draws blocks of rows of one world."""

    world: World
    attributes: dict[int, Ids]
    arrivals: dict[int, tuple[Floats, Ids]]

    @classmethod
    def draw(cls, world: World) -> RowSource:
        """Fixes each user's attributes."""
        attributes = {}
        for place, field in enumerate(world.fields):
            if field.source == "attribute":
                uniforms = random_stream("world", world.seed, "attribute", field.name).random(world.n_users + 1)
                attributes[place] = draw_power_law(uniforms, field.size, field.exponent)
        late = {
            place: field.arrivals(("world", world.seed)) for place, field in enumerate(world.fields) if field.arriving
        }
        return cls(world, attributes, late)

    def block(self, seed: int | str, number: int, n_rows: int) -> Rows:
        """Returns block `number` of a log of `n_rows` rows: the same whenever and wherever it is asked for."""
        size = min(BLOCK_ROWS, n_rows - number * BLOCK_ROWS)
        fields = self.world.fields
        uniforms = random_stream("rows", self.world.seed, seed, number).random((4 + len(fields), BLOCK_ROWS))[:, :size]
        seconds = self._seconds((np.arange(size) + number * BLOCK_ROWS + uniforms[0]) / n_rows)
        elapsed = seconds / (self.world.days * 86_400.0)
        users = draw_power_law(uniforms[1], self.world.n_users, self.world.user_exponent)
        features = np.empty((size, len(fields)), dtype=np.int32)
        for place, field in enumerate(fields):
            if field.source == "hour":
                features[:, place] = seconds // 3600 % 24 + 1
            elif field.source == "weekday":
                features[:, place] = (seconds // 86_400 + _FIRST_WEEKDAY) % 7 + 1
            elif field.source == "user":
                features[:, place] = users
            elif field.source == "attribute":
                features[:, place] = self.attributes[place][users]
            else:
                features[:, place] = draw_power_law(uniforms[4 + place], field.size, field.exponent)
            if place in self.arrivals:
                moments, before = self.arrivals[place]
                ids = features[:, place]
                features[:, place] = np.where(moments[ids] <= elapsed, ids, before[ids])
        return Rows(
            features=features,
            users=users,
            times=seconds.astype(np.int64) + FIRST_SECOND,
            elapsed=elapsed,
            click_uniforms=uniforms[2],
            watch_uniforms=uniforms[3],
        )

    def _seconds(self, shares: Floats) -> Floats:
        hours = np.arange(24 * self.world.days + 1)
        traffic = np.concatenate([[0.0], np.cumsum(np.tile(_DAILY_RHYTHM, self.world.days))])
        seconds: Floats = np.interp(shares, traffic / traffic[-1], hours * 3600.0)
        return seconds
