"""What happens after the click, and labels that come late: a log as it looks before all of them are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, check_known
from monocal.core.fields import Ids
from monocal.core.scores import Floats, sigmoid
from monocal.lab.simulator.distortions import FieldSpace
from monocal.lab.simulator.field_distortions import Tables, sum_over_fields, value_table

if TYPE_CHECKING:
    import pyarrow as pa


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
        check_known("task", name, TASKS)
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


def delay_labels(
    table: pa.Table,
    *,
    label: str = "click",
    time: str = "timestamp",
    by: str = "ad_id",
    window: float = 7.0,
    period: float = 10.0,
    seed: int = 0,
) -> pa.Table:
    """Returns the table as it is seen at the moment of its last event, with the moment each positive label came.

    Delays are exponential and cut at the window; every value of a field has its own mean, log-uniform between a
    tenth of the window and the whole of it. Times are stretched to `period` days.

    Arguments:
        table: A simulated log.
        label: The label; those that have not come yet become 0.
        time: Its time column; it becomes whole seconds.
        by: The field whose values differ in their delays, such as the advertiser.
        window: Days after which no label comes.
        period: Days that the log covers.
        seed: Seed of the delays.

    Returns:
        The table with the columns `label_time` (null where none has come) and `final_<label>` (what it will be).
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    moments = table[time].to_numpy().astype(np.float64)
    seconds = (moments - moments.min()) / np.ptp(moments) * period * 86_400.0
    codes = table[by].combine_chunks().dictionary_encode().indices.to_numpy()
    means = window * 86_400.0 * np.exp(rng.uniform(np.log(0.1), np.log(1.0), int(codes.max()) + 1))
    mean = means[codes]
    # exponential given that it is within the window
    reach = -np.expm1(-window * 86_400.0 / mean)
    came = seconds + -mean * np.log1p(-rng.random(seconds.size) * reach)
    final = table[label].to_numpy()
    seen = (final == 1) & (came <= seconds.max())
    label_time = pa.array(came.astype(np.int64), mask=~seen)
    changed = table.set_column(table.column_names.index(label), label, pa.array(seen.astype(np.int8)))
    changed = changed.set_column(changed.column_names.index(time), time, pa.array(seconds.astype(np.int64)))
    return changed.append_column("label_time", label_time).append_column(f"final_{label}", pa.array(final))
