"""QIN reads the user's past and nothing else of the future, and is better for it where the past matters."""

from dataclasses import replace

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.prepare.encoded_log import Histories
from monocal.lab.prepare.histories import with_histories
from monocal.lab.rankers import QIN, MultiTaskDeepFM
from monocal.lab.rankers.qin import ContentVectors, search
from monocal.lab.simulator.search import SearchWorld, simulate_search
from monocal.metrics import Forecast, metric

NARROW = {"hidden": (64, 32), "batch_rows": 256, "n_threads": 1}
SHORT = {"n_recent": 60, "n_by_query": 30, "n_by_item": 12}


@pytest.fixture(scope="module")
def log():
    world = SearchWorld(n_users=1200, n_items=300, n_queries=50)
    return with_histories(simulate_search(80_000, seed=2, world=world).encoded(), "user_id")


@pytest.fixture(scope="module")
def fitted(log):
    return QIN(**NARROW, **SHORT).fit(log.slice(0, 56_000))


def test_it_beats_the_multi_task_deepfm_beyond_noise(log, fitted):
    train, test = log.slice(0, 56_000), log.slice(56_000, 80_000)
    other = MultiTaskDeepFM(**NARROW).fit(train).score_tasks(test)
    own = fitted.score_tasks(test)
    users, blocks = np.unique(test.groups, return_inverse=True)
    counts = np.random.default_rng(0).poisson(1.0, (60, len(users))).astype(float)
    gains = np.zeros(len(counts))
    for task in log.tasks:
        drawn = []
        for logits in (own[task], other[task]):
            rows = Forecast.of(test.labels[task], 1.0 / (1.0 + np.exp(-logits)))
            replay = metric("auc").summary.replay(rows)
            drawn.append([metric("auc").value(state).number for state in replay.reweighted(blocks, counts)])
        gains += np.subtract(*drawn)
    assert np.quantile(gains, 0.025) > 0.0


def test_outcomes_of_the_row_and_of_later_ones_do_not_reach_its_inputs(log, fitted):
    row = 40_000
    now = log.times[row]
    labels = {task: np.where(log.times >= now, 1 - column, column) for task, column in log.labels.items()}
    changed = replace(log, histories=replace(log.histories, labels=labels))
    rows = np.arange(row, row + 200)
    rows = rows[log.times[rows] == now]
    assert np.array_equal(fitted._inputs(changed, rows), fitted._inputs(log, rows))
    # the same test sees a leak: histories that reach one event too far
    leaky = replace(changed.histories, stop=log.histories.stop + 1)
    honest = replace(log.histories, stop=log.histories.stop + 1)
    assert not np.array_equal(
        fitted._inputs(replace(log, histories=leaky), rows), fitted._inputs(replace(log, histories=honest), rows)
    )


def test_search_keeps_what_is_like_the_query_and_then_what_is_like_the_item():
    axes = np.eye(3, dtype=np.float32)
    # items 1, 2 are of the query's kind, item 3 is not; the target is like item 2
    tilted = np.array([[0.8, 0.6, 0.0]], np.float32)
    content = ContentVectors(np.vstack([np.zeros(3), axes[0]]), np.vstack([np.zeros(3), axes[0], tilted, axes[2]]))
    past = np.array([[3, 1, 2, 1, -1]])
    kept = search(content, np.array([1]), np.array([2]), past, n_by_query=3, n_by_item=2)
    # item 2 first, then the newer of the two events with item 1
    assert kept.tolist() == [[2, 1]]


def test_what_is_missing_is_named(log):
    small = log.slice(0, 1_000)
    with pytest.raises(InvalidInput, match='no histories.*history="user_id"'):
        QIN(hidden=(8,)).fit(replace(small, histories=None))
    with pytest.raises(UnknownName, match="query: got 'qury'.*did you mean 'query'"):
        QIN(query="qury", hidden=(8,)).fit(small)
    with pytest.raises(InvalidInput, match="numbers that fall"):
        QIN(n_recent=10, n_by_query=20, hidden=(8,)).fit(small)
    assert isinstance(small.histories, Histories)
