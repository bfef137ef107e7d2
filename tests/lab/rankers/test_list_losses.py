"""Rankers that learn from lists: whole lists in a batch, every loss end to end, references that belong to the rows."""

import numpy as np
import pytest
import torch

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.rankers import DeepFM, MultiTaskDeepFM, load_ranker, rank_log
from monocal.lab.rankers.lists import lists_of, order_by_list
from monocal.lab.ranking_losses import RANKING_LOSSES
from monocal.lab.simulator import simulate_log
from monocal.metrics import metric
from monocal.metrics.forecast import Forecast

SMALL = {"hidden": (16, 8), "n_dimensions": 4, "batch_rows": 256, "learning_rate": 0.02, "n_epochs": 3}


@pytest.fixture(scope="module")
def saved_log(tmp_path_factory, click_log):
    return click_log.save(tmp_path_factory.mktemp("log") / "log")


@pytest.fixture(scope="module")
def teacher(saved_log, tmp_path_factory):
    return rank_log(saved_log, DeepFM(**SMALL), tmp_path_factory.mktemp("teacher") / "ranked")


@pytest.mark.parametrize("batch_rows", [7, 64, 500])
def test_a_list_of_neighbouring_rows_is_whole_in_one_batch_and_no_row_is_lost(batch_rows):
    random = np.random.default_rng(0)
    # lists of at most seven rows whose rows lie fewer than `batch_rows` rows apart, interleaved with others
    lists = np.repeat(np.arange(400), random.integers(1, 8, 400))
    lists = lists[np.argsort(np.arange(lists.size) + random.uniform(0, min(batch_rows - 7, 20), lists.size))]
    order, ends = order_by_list(lists, batch_rows)
    assert np.array_equal(np.sort(order), np.arange(lists.size))
    starts = [0, *ends[:-1]]
    assert max(end - start for start, end in zip(starts, ends, strict=True)) <= batch_rows
    batch_of = np.empty(lists.size, int)
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        batch_of[order[start:end]] = number
    for value in np.unique(lists):
        rows = np.flatnonzero(lists == value)
        if rows[-1] - rows[0] < batch_rows:
            assert np.unique(batch_of[rows]).size == 1
    assert np.max(np.abs(np.argsort(order) - np.arange(lists.size))) < batch_rows


def test_lists_by_several_columns_and_unseen_values_alone(click_log):
    lists = lists_of(click_log, ("country", "device"))
    country, device = (click_log.features[:, click_log.field_names.index(name)] for name in ("country", "device"))
    pairs = np.stack([country, device], axis=1)
    assert np.unique(lists).size == np.unique(pairs, axis=0).shape[0]
    assert np.array_equal(lists_of(click_log, None), click_log.groups)
    features = click_log.features.copy()
    features[:5, click_log.field_names.index("country")] = 0
    unseen = type(click_log).of(features, click_log.labels, click_log.vocabulary, click_log.roles)
    assert np.unique(lists_of(unseen, "country")[:5]).size == 5
    with pytest.raises(UnknownName, match="group: got 'contry'.*did you mean 'country'"):
        lists_of(click_log, "contry")
    with pytest.raises(InvalidInput, match="group: got None"):
        lists_of(unseen, None)


@pytest.mark.parametrize("loss", sorted(RANKING_LOSSES))
def test_every_loss_learns_to_order_and_gives_logits_of_probabilities(saved_log, teacher, tmp_path, loss):
    group = ("site_id", "ad_id") if loss == "bbp" else "user_id"
    ranked = rank_log(saved_log, DeepFM(**SMALL, loss=loss, group=group), tmp_path / "ranked", reference=teacher)
    train = ranked.part("train")
    found = Forecast.of(train.log.labels["click"], 1.0 / (1.0 + np.exp(-train.logits["click"])))
    assert metric("auc").of(found).number > 0.65
    # calsoftmax's scale comes from its anchor; all others contain log-loss
    assert 0.5 < metric("pcoc").of(found).number < 2.0
    again = load_ranker(tmp_path / "ranked" / "ranker")
    assert again.get_params()["loss"] == loss
    assert np.array_equal(again.score(saved_log), ranked.logits["click"])


def test_joint_training_has_two_logits_per_task_and_decodes_them(video_log):
    ranker = MultiTaskDeepFM(**SMALL, loss="jrc", group="user_id").fit(video_log)
    raw = ranker.network_.score(torch.tensor(video_log.features[:50])).detach().double().numpy()
    assert raw.shape == (50, 6)
    scores = ranker.score_tasks(video_log.slice(0, 50))
    for place, task in enumerate(video_log.tasks):
        np.testing.assert_allclose(scores[task], raw[:, 2 * place + 1] - raw[:, 2 * place], atol=1e-12)


def test_what_a_loss_lacks_is_named(saved_log, teacher, tmp_path):
    bare = simulate_log(500, seed=9).encoded()
    bare = type(bare).of(bare.features, bare.labels, bare.vocabulary, bare.roles)
    with pytest.raises(InvalidInput, match="a log without scores of task 'click'.*reference="):
        DeepFM(**SMALL, loss="clid", group="site_id").fit(bare)
    with pytest.raises(InvalidInput, match="the fields of user and item"):
        DeepFM(**SMALL, loss="bbp").fit(bare)
    with pytest.raises(UnknownName, match="loss: got 'jrcc'.*did you mean 'jrc'"):
        DeepFM(**SMALL, loss="jrcc").fit(bare)
    with pytest.raises(UnknownName, match="argument of 'jrc': got 'alfa'.*'alpha'"):
        DeepFM(**SMALL, loss="jrc", loss_arguments={"alfa": 1.0}, group="site_id").fit(bare)
    with pytest.raises(InvalidInput, match="reference: got scores of 6,000 rows"):
        rank_log(bare, DeepFM(**SMALL, loss="clid", group="site_id"), tmp_path / "x", reference=teacher)
