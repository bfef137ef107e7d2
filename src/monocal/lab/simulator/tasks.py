"""What happens after the click: an effective view, and among those a long view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.samples import Ids
from monocal.core.spaces import Floats, sigmoid
from monocal.lab.simulator.distortions import FieldSpace
from monocal.lab.simulator.field_distortions import Tables, sum_over_fields, value_table


@dataclass(frozen=True)
class Task:
    """One thing a ranker predicts for every impression.

    Attributes:
        name: The label's column.
        score: The score's column.
        truth: The true probability's column.
    """

    name: str
    score: str
    truth: str


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("click", "pctr", "true_p"),
        Task("effective_view", "pev", "true_pev"),
        Task("long_view", "plv", "true_plv"),
    )
}


def check_tasks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses unknown tasks and a list without the click, on which the others depend."""
    for name in names:
        if name not in TASKS:
            raise UnknownName.among("task", name, TASKS)
    if "click" not in names:
        raise InvalidInput.of("tasks", names, "a list that holds 'click'", "add 'click': the other tasks follow it")
    return tuple(name for name in TASKS if name in names)


@final
@dataclass(frozen=True)
class WatchModel:
    r"""How likely a clicked impression is watched effectively, and for long.

    .. math:: P(E \mid C, x) = \sigma(u(x)), \qquad P(L \mid C, x) = \sigma(u(x))\,\sigma(v(x))

    Both labels are read off one uniform number per row, so a long view is always an effective view and an
    effective view always a click.
    """

    effective: Tables
    long: Tables

    @classmethod
    def draw(cls, space: FieldSpace) -> WatchModel:
        """Draws one number per field value for u and for v."""

        def tables(label: str) -> Tables:
            scale = 0.8 / np.sqrt(len(space.fields))
            return tuple((place, scale * value_table(space, place, label)) for place in range(len(space.fields)))

        return cls(tables("effective_view"), tables("long_view"))

    def probabilities(self, features: Ids) -> dict[str, Floats]:
        """Returns the probability of each later task *given a click*."""
        effective = sigmoid(0.2 + sum_over_fields(features, self.effective))
        return {"effective_view": effective, "long_view": effective * sigmoid(sum_over_fields(features, self.long))}

    @staticmethod
    def labels(clicks: NDArray[np.int8], given_click: Floats, uniforms: Floats) -> NDArray[np.int8]:
        """Returns 1 where there was a click and the row's uniform number falls below the probability."""
        return clicks * (uniforms < given_click).astype(np.int8)
