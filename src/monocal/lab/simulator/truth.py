"""A world with its tables drawn: from field values to the true probability, exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np

from monocal.core.spaces import Floats, sigmoid
from monocal.lab.simulator.distortions import BoundDistortion, Distortion, FieldSpace
from monocal.lab.simulator.field_distortions import PairTable, Tables, sum_over_fields
from monocal.lab.simulator.fields import Field
from monocal.lab.simulator.rows import BLOCK_ROWS, Rows, RowSource
from monocal.lab.simulator.tasks import TASKS, WatchModel
from monocal.lab.simulator.worlds import World


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
