"""A search engine with a trained ranker: it learns from a log, and answers the next requests of the same users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.fields import Ids
from monocal.core.scores import Floats, sigmoid
from monocal.lab.ab.experiment_plan import AbPlan
from monocal.lab.ab.traffic import LoggedPeriod, outcomes_of
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.histories import with_histories
from monocal.lab.rankers import ranker
from monocal.lab.simulator.draws import random_stream
from monocal.lab.simulator.search import SearchWorld, page_features, simulate_pages

Numbers = NDArray[np.int64]


@final
@dataclass(frozen=True)
class SearchRequests:
    """Some requests; every candidate has luck of its own, whichever arm shows it.

    Attributes:
        users: User of each request.
        queries: What each asks for.
        items: Its candidates `(requests, candidates)`.
        features: Field ids, candidate by candidate, as known before the position is.
        scores: Task to the ranker's probabilities.
        click_luck: Decides clicks.
        watch_luck: Decides views.
    """

    users: Numbers
    queries: Numbers
    items: Numbers
    features: Ids
    scores: dict[str, Floats]
    click_luck: Floats
    watch_luck: Floats

    @property
    def n_candidates(self) -> int:
        return int(self.items.shape[1])


@final
class SearchStage:
    """The simulated search, with a ranker that is trained on the first part of its log.

    The ranker learns from `n_training` rows, calibrators from its scores of the next `n_calibration`. Requests come
    after the log: the past of their users is all that the log says of them.

    Arguments:
        plan: Which ranker, log and traffic.
    """

    def __init__(self, plan: AbPlan) -> None:
        if plan.n_training < 1:
            raise InvalidInput.of("n_training", plan.n_training, "rows for the ranker", "say n_training = 400_000")
        world = SearchWorld(seed=plan.world_seed)
        n_rows = plan.n_training + plan.n_calibration
        log, self._truth, self._pasts = simulate_pages(n_rows, plan.seed, world)
        encoded = with_histories(log.encoded(), "user_id")
        self._plan, self._log = plan, encoded
        self._ranker = ranker(plan.ranker, **plan.ranker_arguments).fit(encoded.slice(0, plan.n_training))
        self._hour = int(log.times[-1] // 3600 % 24)
        later = encoded.slice(plan.n_training, n_rows)
        labels = {task: np.asarray(column) for task, column in later.labels.items()}
        assert later.times is not None
        self.logged = LoggedPeriod(later.features, later.times, self._probabilities(later), labels)
        users = np.asarray(encoded.features[:, 0])
        # rows by user in time order, so that a user's past is one range
        self._by_user = np.argsort(users, kind="stable")
        self._ends = np.cumsum(np.bincount(users, minlength=world.n_users + 1))
        self._known = np.unique(users)

    def requests(self, number: int, n_requests: int) -> SearchRequests:
        random = random_stream("search requests", self._plan.seed, number)
        users = random.choice(self._known, n_requests).astype(np.int64)
        queries = self._truth.queries(random, users)
        items = self._truth.candidates(random, queries, self._plan.n_candidates)
        places, hours = np.zeros_like(items), np.full(n_requests, self._hour)
        features = page_features(self._truth, users, queries, items, places, hours)
        return SearchRequests(
            users,
            queries,
            items,
            features,
            self._probabilities(self._as_log(features)),
            random.random(items.shape),
            random.random(items.shape),
        )

    def react(self, requests: SearchRequests, order: NDArray[np.intp]) -> dict[str, Floats]:
        items = requests.items.ravel()[order]
        places = np.broadcast_to(np.arange(order.shape[1]), order.shape)
        logits, given = self._truth.probabilities(requests.users, requests.queries, items, places, self._pasts)
        clicks = requests.click_luck.ravel()[order] < sigmoid(logits)
        return outcomes_of(clicks, given, requests.watch_luck.ravel()[order])

    def _probabilities(self, rows: EncodedLog) -> dict[str, Floats]:
        found = self._ranker.score_tasks(rows, show_progress=False)
        return {task: sigmoid(logits) for task, logits in found.items()}

    def _as_log(self, features: Ids) -> EncodedLog:
        """Returns candidates as rows after the log, with the whole past of their users."""
        log, n_rows = self._log, len(features)
        assert log.histories is not None
        users = features[:, 0]
        past = replace(log.histories, order=self._by_user, first=self._ends[users - 1], stop=self._ends[users])
        return replace(
            log,
            features=features,
            labels={task: np.zeros(n_rows, np.int8) for task in log.labels},
            times=None,
            groups=None,
            scores={},
            parts={},
            histories=past,
        )
