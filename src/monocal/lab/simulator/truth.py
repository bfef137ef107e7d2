"""Rows drawn block by block, and a world with its tables drawn: from field values to the true probability, exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.fields import Ids
from monocal.core.scores import Floats, sigmoid
from monocal.lab.simulator.distortions import BoundDistortion, Distortion, FieldSpace
from monocal.lab.simulator.draws import Field, draw_power_law, random_stream
from monocal.lab.simulator.field_distortions import PairTable, Tables, sum_over_fields
from monocal.lab.simulator.outcomes import TASKS, WatchModel
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


@final
@dataclass(frozen=True)
class Truth:
    """The drawn world: where rows come from, what they are worth, and how each task's score is distorted.

    Attributes:
        world: The description it was drawn from.
        source: Draws rows.
        effects: What each field value adds to the drawn logit.
        drifts: How far each of those moves over the log.
        pairs: What pairs of values add.
        user_effects: What each user adds.
        intercept: Solved so that the mean true probability is the world's base rate.
        distortions: One bound distortion per task: `to_truth` of the task's is its ideal calibration.
        watch: What happens after a click.
    """

    world: World
    source: RowSource
    effects: Tables
    drifts: Tables
    pairs: tuple[PairTable, ...]
    user_effects: Floats
    distortions: dict[str, BoundDistortion]
    watch: WatchModel
    intercept: float = 0.0

    def click_logits(self, rows: Rows) -> tuple[Floats, Floats]:
        """Returns the true logit and the score logit of a click, row by row."""
        return self._from_drawn(self.intercept + self._sum_of_effects(rows), rows)

    def solved(self) -> Truth:
        """Returns this world with the intercept that gives the base rate, found on a pilot block by bisection."""
        rows = self.source.block("pilot", 0, BLOCK_ROWS)
        effects = self._sum_of_effects(rows)
        low, high = -16.0, 16.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            truth, _scores = self._from_drawn(middle + effects, rows, scores=False)
            if float(np.mean(sigmoid(truth))) < self.world.base_rate:
                low = middle
            else:
                high = middle
        return replace(self, intercept=0.5 * (low + high))

    def _from_drawn(self, drawn: Floats, rows: Rows, scores: bool = True) -> tuple[Floats, Floats]:
        bound = self.distortions["click"]
        if self.world.draws == "score":
            return bound.to_truth(drawn, rows.features, rows.elapsed), drawn
        return drawn, bound.to_scores(drawn, rows.features, rows.elapsed) if scores else drawn

    def _sum_of_effects(self, rows: Rows) -> Floats:
        total = sum_over_fields(rows.features, self.effects)
        if self.drifts:
            total += sum_over_fields(rows.features, self.drifts) * (rows.elapsed - 0.5)
        for pair in self.pairs:
            total += pair.look_up(rows.features)
        if self.world.user_effect:
            total += self.user_effects[rows.users]
        if self.world.trend:
            total += self.world.trend * (rows.elapsed - 0.5)
        return total


@lru_cache(maxsize=16)
def draw_truth(world: World, distortion: Distortion | None = None) -> Truth:
    """Draws every table of a world, solves its intercept, and keeps the result for the next call.

    Arguments:
        world: The description.
        distortion: Replaces the world's own. Where the world draws the truth, the truth stays as it was.
    """
    key = ("world", world.seed)
    fields = world.fields
    space = FieldSpace(fields, tuple(field.effects(key) for field in fields), (*key, "distortion"))
    chosen = world.distortion if distortion is None else distortion
    users = Field("the user", world.n_users, world.user_exponent, world.user_effect)
    return Truth(
        world=world,
        source=RowSource.draw(world),
        effects=tuple((place, space.effects[place]) for place, field in enumerate(fields) if field.effect),
        drifts=tuple((place, field.drifts(key)) for place, field in enumerate(fields) if field.drift),
        pairs=tuple(
            PairTable.between(space, pair.first, pair.second, pair.n_groups, pair.scale, (*key, "interaction"))
            for pair in world.interactions
        ),
        user_effects=users.effects(key),
        distortions={task: chosen.bind(space.within(task)) for task in TASKS},
        watch=WatchModel.draw(FieldSpace(fields, space.effects, (*key, "watch"))),
    ).solved()
