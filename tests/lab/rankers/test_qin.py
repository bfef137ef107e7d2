"""QIN reads the user's past and nothing else of the future, and is better for it where the past matters."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.prepare.encoded_log import Histories
from monocal.lab.prepare.histories import with_histories
from monocal.lab.prepare.splits import RowRange
from monocal.lab.rankers import QIN, MultiTaskDeepFM, load_ranker, rank_log
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


def test_content_vectors_are_the_same_in_every_fit():
    """Where singular values repeat, as they do in a sparse matrix of clicks, an iterative solver may draw at random."""
    rows = simulate_search(6000)
    clicked = rows.features[rows.labels == 1]
    found = [ContentVectors.fit(clicked[:, 1], clicked[:, 2], (401, 4001), 16) for _ in range(3)]
    assert all(np.array_equal(vectors.items, found[0].items) for vectors in found)
    assert all(np.array_equal(vectors.queries, found[0].queries) for vectors in found)


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


def test_saved_and_loaded_it_scores_the_same(log, tmp_path):
    part = log.slice(0, 6_000)
    small = replace(part, parts={"train": RowRange(0, 4_000)})
    ranked = rank_log(small, QIN(hidden=(8,), n_epochs=1, **SHORT), tmp_path / "ranked")
    assert ranked.tasks == ("click", "effective_view", "long_view")
    assert np.array_equal(load_ranker(tmp_path / "ranked" / "ranker").score(small), ranked.logits["click"])
    assert len(ranked.embeddings) == len(log.field_names)


def test_without_a_query_the_item_alone_is_compared(log):
    ranker = QIN(query=None, hidden=(8,), **SHORT).fit(log.slice(0, 4_000))
    assert np.all(np.isfinite(ranker.score(log.slice(4_000, 4_500))))


def test_it_trains_with_a_list_loss(log):
    """Joint training reads two logits of each task; the page is the list."""
    train, later = log.slice(0, 20_000), log.slice(20_000, 24_000)
    ranker = QIN(hidden=(32,), batch_rows=256, loss="jrc", group=("user_id", "query"), n_threads=1, **SHORT).fit(train)
    raw = ranker.network_.score(torch.tensor(ranker._inputs(later, slice(None)))).detach().double().numpy()
    assert raw.shape == (4_000, 6)
    scores = ranker.score_tasks(later)
    for place, task in enumerate(log.tasks):
        np.testing.assert_allclose(scores[task], raw[:, 2 * place + 1] - raw[:, 2 * place], atol=1e-12)
        found = Forecast.of(later.labels[task], 1.0 / (1.0 + np.exp(-scores[task])))
        assert metric("auc").of(found).number > 0.55
    assert not np.allclose(ranker.losses_[0], 3 * np.log(2.0), atol=0.05)  # what log-loss starts at


def test_search_keeps_what_is_like_the_query_and_then_what_is_like_the_item():
    axes = np.eye(3, dtype=np.float32)
    # items 1, 2 are of the query's kind, item 3 is not; the target is like item 2
    tilted = np.array([[0.8, 0.6, 0.0]], np.float32)
    content = ContentVectors(np.vstack([np.zeros(3), axes[0]]), np.vstack([np.zeros(3), axes[0], tilted, axes[2]]))
    past = np.array([[3, 1, 2, 1, -1]])
    kept = search(content, np.array([1]), np.array([2]), past, n_by_query=3, n_by_item=2)
    # item 2 first, then the newer of the two events with item 1
    assert kept.tolist() == [[2, 1]]


def test_a_user_without_a_past_has_no_events(log, fitted):
    first = int(np.flatnonzero(log.histories.stop == log.histories.first)[0])
    codes = fitted._inputs(log, np.array([first]))[0, -SHORT["n_by_item"] :]
    assert codes.tolist() == [0] * SHORT["n_by_item"]


def test_what_is_missing_is_named(log):
    small = log.slice(0, 1_000)
    with pytest.raises(InvalidInput, match='no histories.*history="user_id"'):
        QIN(hidden=(8,)).fit(replace(small, histories=None))
    with pytest.raises(UnknownName, match="query: got 'qury'.*did you mean 'query'"):
        QIN(query="qury", hidden=(8,)).fit(small)
    with pytest.raises(InvalidInput, match="numbers that fall"):
        QIN(n_recent=10, n_by_query=20, hidden=(8,)).fit(small)
    assert isinstance(small.histories, Histories)
