"""Requests with candidates, how users react to what they are shown, and where an experiment takes place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.fields import Ids
from monocal.core.scores import Floats, logit, sigmoid
from monocal.lab.ab.experiment_plan import AbPlan
from monocal.lab.simulator import find_world, simulate_log
from monocal.lab.simulator.truth import BLOCK_ROWS, Rows, Truth, draw_truth

CLICK_SECONDS, EFFECTIVE_SECONDS, LONG_SECONDS = 3.0, 12.0, 45.0
"""Seconds watched after a click, and in addition after an effective and after a long view."""

POSITION = "position"


@final
@dataclass(frozen=True)
class Requests:
    """Some requests: per candidate its features and raw scores, per request the user and the luck of every candidate.

    Attributes:
        rows: Candidates `(requests × candidates)` as simulator rows, request by request.
        n_candidates: Candidates per request.
        scores: The ranker's raw score of every candidate and task, given before the position is known.
    """

    rows: Rows
    n_candidates: int
    scores: dict[str, Floats]

    @property
    def users(self) -> Ids:
        return self.rows.users[:: self.n_candidates]

    @property
    def features(self) -> Ids:
        return self.rows.features


@final
class SimulatedStage:
    """A simulated world whose scores miss the truth in a known way; no ranker is trained.

    Arguments:
        plan: Which world, log and traffic.
    """

    def __init__(self, plan: AbPlan) -> None:
        world = find_world(plan.world).with_seed(plan.world_seed)
        self._truth, self._plan = draw_truth(world), plan
        tasks = ("click", "effective_view", "long_view")
        log = simulate_log(plan.n_calibration, seed=plan.seed, world=world, tasks=tasks)
        self.logged = LoggedPeriod(log.features, log.times, log.task_scores, log.task_labels)

    def requests(self, number: int, n_requests: int) -> Requests:
        return draw_requests(self._truth, self._plan.seed + 1, number, n_requests, self._plan.n_candidates)

    def react(self, requests: Requests, order: NDArray[np.intp]) -> dict[str, Floats]:
        return react(self._truth, requests, order)


def draw_requests(truth: Truth, seed: int, number: int, n_requests: int, n_candidates: int) -> Requests:
    """Draws requests: one user, moment and context each, with candidates that differ in everything else."""
    n = n_requests * n_candidates
    n_blocks = -(-n // BLOCK_ROWS)
    first = number * n_blocks
    whole = (first + n_blocks) * BLOCK_ROWS
    blocks = [truth.source.block(seed, first + k, whole) for k in range(n_blocks)]
    rows = Rows(**{name: np.concatenate([getattr(b, name) for b in blocks])[:n] for name in vars(blocks[0])})
    lead = np.repeat(np.arange(0, n, n_candidates), n_candidates)
    features = rows.features.copy()
    for place, field in enumerate(truth.world.fields):
        if field.source in ("user", "attribute", "hour"):
            features[:, place] = features[lead, place]
        elif field.name == POSITION:
            features[:, place] = 1
    rows = replace(rows, features=features, users=rows.users[lead], times=rows.times[lead], elapsed=rows.elapsed[lead])
    return Requests(rows, n_candidates, _scores(truth, rows))


def react(truth: Truth, requests: Requests, order: NDArray[np.intp]) -> dict[str, Floats]:
    """Returns what each request brought: clicks, effective views, long views and seconds watched.

    Whether a shown candidate is clicked depends on its true probability *at its position* and on luck that belongs to
    the candidate, not to the arm: two arms that show the same list get the same reaction.

    Arguments:
        truth: The world.
        requests: Who asked, and for what.
        order: Rows shown per request, best first, `(requests, shown)`.
    """
    n_shown = order.shape[1]
    flat = order.ravel()
    rows = requests.rows
    features = rows.features[flat].copy()
    names = [field.name for field in truth.world.fields]
    if POSITION in names:
        place = names.index(POSITION)
        last = truth.world.fields[place].size
        features[:, place] = np.tile(np.minimum(np.arange(1, n_shown + 1), last), order.shape[0])
    shown = Rows(
        features=features,
        users=rows.users[flat],
        times=rows.times[flat],
        elapsed=rows.elapsed[flat],
        click_uniforms=rows.click_uniforms[flat],
        watch_uniforms=rows.watch_uniforms[flat],
    )
    true_logits, _ = truth.click_logits(shown)
    clicks = shown.click_uniforms < sigmoid(true_logits)
    given = truth.watch.probabilities(features)
    return outcomes_of(clicks.reshape(order.shape), given, shown.watch_uniforms.reshape(order.shape))


def outcomes_of(clicks: NDArray[np.bool_], given_click: dict[str, Floats], watch_luck: Floats) -> dict[str, Floats]:
    """Returns the outcomes of each request from the clicks on its shown candidates `(requests, shown)`.

    Arguments:
        clicks: Which were clicked.
        given_click: Probability of each view, given a click.
        watch_luck: Uniform numbers that decide the views.
    """
    effective, long = (
        clicks & (watch_luck < given_click[task].reshape(clicks.shape)) for task in ("effective_view", "long_view")
    )
    seconds = CLICK_SECONDS * clicks + EFFECTIVE_SECONDS * effective + LONG_SECONDS * long
    outcome = {"clicks": clicks, "effective_views": effective, "long_views": long, "watch_seconds": seconds}
    return {name: np.asarray(values, dtype=np.float64).sum(axis=1) for name, values in outcome.items()}


def _scores(truth: Truth, rows: Rows) -> dict[str, Floats]:
    true_logits, score_logits = truth.click_logits(rows)
    scores = {"click": sigmoid(score_logits)}
    given = truth.watch.probabilities(rows.features)
    for task, after_click in given.items():
        joint = sigmoid(true_logits) * after_click
        scores[task] = sigmoid(truth.distortions[task].to_scores(logit(joint), rows.features, rows.elapsed))
    return scores


@final
@dataclass(frozen=True)
class LoggedPeriod:
    """Impressions that calibrators are fitted on.

    Attributes:
        features: Field ids.
        times: When each was shown.
        scores: Task to the ranker's scores.
        labels: Task to what happened.
    """

    features: Ids
    times: NDArray[np.int64]
    scores: dict[str, Floats]
    labels: dict[str, NDArray[np.int8]]
