"""The simulated log: rows, scores, labels, and the truth nobody has in real life."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.scores import Floats, logit, sigmoid
from monocal.lab.simulator.distortions import Distortion
from monocal.lab.simulator.outcomes import WatchModel, check_tasks
from monocal.lab.simulator.truth import BLOCK_ROWS, Truth, draw_truth
from monocal.lab.simulator.worlds import World, find_world

if TYPE_CHECKING:
    import pyarrow

    from monocal.lab.prepare.encoded_log import EncodedLog

Labels = NDArray[np.int8]

_COLUMNS = ("features", "users", "times", "true_logits", "logits", "labels")
_TASK_COLUMNS = ("task_labels", "task_scores", "task_truths", "given_click")


@final
@dataclass(frozen=True)
class SimulatedLog:
    """Impressions in time order with labels, scores and true probabilities.

    Attributes:
        features: Field ids `(n, F)`, int32, from 1 in order of popularity.
        field_names: The fields' names, one per column.
        field_sizes: How many ids each field has, id 0 (unseen) included.
        users: User ids, the natural groups.
        times: Seconds since 1970, rising.
        true_logits: The logit of the true click probability.
        logits: The logit of the score.
        labels: Clicks, 0 or 1.
        task_labels: Labels of every task, click included. Without a click the later ones are 0.
        task_scores: The score of every task: a probability per impression, so `effective_view` means clicked
            *and* effectively viewed.
        task_truths: The true probability of the same events.
        given_click: The true probability of the later tasks given a click.
    """

    features: Ids
    field_names: tuple[str, ...]
    field_sizes: tuple[int, ...]
    users: Ids
    times: NDArray[np.int64]
    true_logits: Floats
    logits: Floats
    labels: Labels
    task_labels: dict[str, Labels]
    task_scores: dict[str, Floats]
    task_truths: dict[str, Floats]
    given_click: dict[str, Floats]

    @property
    def n_rows(self) -> int:
        return int(self.labels.shape[0])

    @property
    def scores(self) -> Floats:
        """The ranker's click probabilities."""
        return self.task_scores["click"]

    @property
    def true_probabilities(self) -> Floats:
        """The true click probabilities."""
        return self.task_truths["click"]

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.task_labels)

    def take(self, rows: slice | NDArray[Any]) -> SimulatedLog:
        """Returns the chosen rows (a slice makes views, not copies)."""
        return _per_column(self, lambda read: read(self)[rows])

    def table(self) -> pyarrow.Table:
        """Returns an Arrow table with raw values as a log on disk has them.

        Columns: `timestamp` (seconds), `user_id`, one string column per field, then for each task its score
        (`pctr`, `pev`, `plv`), label (`click`, …) and truth (`true_p`, …).
        """
        from monocal.lab.simulator.table import to_table

        return to_table(self)

    def encoded(self) -> EncodedLog:
        """Returns the same rows as an encoded log, with the simulator's ids and its scores."""
        from monocal.lab.simulator.table import to_encoded_log

        return to_encoded_log(self)


def simulate_log(
    n: int,
    seed: int = 0,
    world: str | World = "default",
    distortion: Distortion | None = None,
    tasks: tuple[str, ...] | None = None,
) -> SimulatedLog:
    """Simulates a click log whose true probabilities are known exactly.

    The same arguments give the same rows, on any machine and in any batch size. A different seed gives fresh rows of
    the same world; a different distortion gives the same impressions and clicks with other scores (where the world
    draws the truth, which all but `conditional` do).

    Arguments:
        n: How many rows; they always cover the world's whole period.
        seed: Draws the rows. The world has a seed of its own.
        world: A name in `WORLDS` or a `World`.
        distortion: How the score misses the truth, instead of the world's own way.
        tasks: Which tasks to simulate; by default the world's.

    Example:
        >>> log = simulate_log(20_000, world="downsampled")
        >>> round(float(log.labels.mean()), 1), round(float(log.scores.mean()), 1)
        (0.1, 0.3)
        >>> log.field_names
        ('site_id', 'ad_id', 'country', 'hour', 'position', 'device')
    """
    check_n_rows(n)
    truth = draw_truth(find_world(world), distortion)
    chosen = check_tasks(truth.world.tasks if tasks is None else tasks)
    blocks = [simulate_block(truth, seed, number, n, chosen) for number in range(-(-n // BLOCK_ROWS))]
    return concatenate(blocks)


def simulate_block(truth: Truth, seed: int, number: int, n_rows: int, tasks: tuple[str, ...]) -> SimulatedLog:
    """Returns block `number` of a log of `n_rows` rows."""
    rows = truth.source.block(seed, number, n_rows)
    true_logits, score_logits = truth.click_logits(rows)
    truths = {"click": sigmoid(true_logits)}
    scores = {"click": sigmoid(score_logits)}
    labels: dict[str, Labels] = {"click": (rows.click_uniforms < truths["click"]).astype(np.int8)}
    given_click: dict[str, Floats] = {}
    if len(tasks) > 1:
        given = truth.watch.probabilities(rows.features)
        for task in tasks[1:]:
            given_click[task] = given[task]
            truths[task] = truths["click"] * given[task]
            distorted = truth.distortions[task].to_scores(logit(truths[task]), rows.features, rows.elapsed)
            scores[task] = sigmoid(distorted)
            labels[task] = WatchModel.labels(labels["click"], given[task], rows.watch_uniforms)
    fields = truth.world.fields
    return SimulatedLog(
        features=rows.features,
        field_names=tuple(field.name for field in fields),
        field_sizes=tuple(field.size + 1 for field in fields),
        users=rows.users,
        times=rows.times,
        true_logits=true_logits,
        logits=score_logits,
        labels=labels["click"],
        task_labels=labels,
        task_scores=scores,
        task_truths=truths,
        given_click=given_click,
    )


def concatenate(logs: list[SimulatedLog]) -> SimulatedLog:
    """Puts logs of one world one after the other."""
    first = logs[0]
    if len(logs) == 1:
        return first
    return _per_column(first, lambda read: np.concatenate([read(log) for log in logs]))


def check_n_rows(n: int) -> None:
    """Refuses a log without rows."""
    if n < 1:
        raise InvalidInput.of("n", n, "at least one row", "ask for a positive number of rows")


def _per_column(like: SimulatedLog, make: Callable[[Callable[[SimulatedLog], Any]], Any]) -> SimulatedLog:
    plain: dict[str, Any] = {name: make(attrgetter(name)) for name in _COLUMNS}
    by_task: dict[str, Any] = {
        name: {task: make(_reader(name, task)) for task in getattr(like, name)} for name in _TASK_COLUMNS
    }
    return SimulatedLog(field_names=like.field_names, field_sizes=like.field_sizes, **plain, **by_task)


def _reader(name: str, task: str) -> Callable[[SimulatedLog], Any]:
    return lambda log: getattr(log, name)[task]
