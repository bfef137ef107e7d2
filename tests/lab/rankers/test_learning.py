"""Every ranker learns from simulated clicks, does so reproducibly, and comes back from disk unchanged."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.scores import log_loss, logit
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers import DeepFM, HashedLogistic, MultiTaskDeepFM, Precomputed, load_ranker, ranker
from monocal.lab.simulator import simulate_log

SMALL = {"hidden": (16, 8), "n_dimensions": 4, "batch_rows": 256, "n_threads": 1, "learning_rate": 3e-3}
LEARNERS = [HashedLogistic(), DeepFM(**SMALL), MultiTaskDeepFM(**SMALL)]
EVERY = [Precomputed(), *LEARNERS]


def name_of(one):
    return one.name


@pytest.mark.parametrize("one", LEARNERS, ids=name_of)
def test_it_learns_who_clicks(one):
    log = simulate_log(40_000, seed=2).encoded()
    train, test = log.part("train"), log.part("test")
    scores = clone(one).fit(train).score(test)
    labels = test.labels["click"]
    assert roc_auc_score(labels, scores) > 0.6
    assert log_loss(scores, labels) < log_loss(np.full(test.n_rows, logit(labels.mean())), labels)


def test_several_tasks_are_learned_at_once(video_log):
    fitted = MultiTaskDeepFM(**SMALL, n_epochs=4).fit(video_log)
    scores = fitted.score_tasks(video_log)
    assert list(scores) == ["click", "effective_view", "long_view"]
    for task, logits in scores.items():
        assert roc_auc_score(video_log.labels[task], logits) > 0.6
        assert abs(np.mean(1 / (1 + np.exp(-logits))) / video_log.labels[task].mean() - 1) < 0.2


@pytest.mark.parametrize("one", LEARNERS, ids=name_of)
def test_the_same_seed_gives_the_same_weights_and_another_does_not(one, click_log):
    first, second = clone(one).fit(click_log), clone(one).fit(click_log)
    assert np.array_equal(first.score(click_log), second.score(click_log))
    if "seed" in one.get_params():
        other = clone(one).set_params(seed=7).fit(click_log)
        assert not np.array_equal(first.score(click_log), other.score(click_log))
        assert first.fingerprint_ == second.fingerprint_ != other.fingerprint_


@pytest.mark.parametrize("one", EVERY, ids=name_of)
def test_save_and_load_give_identical_scores(one, video_log, tmp_path):
    fitted = clone(one).fit(video_log)
    fitted.save(tmp_path / "ranker")
    loaded = load_ranker(tmp_path / "ranker")
    assert type(loaded) is type(fitted)
    assert loaded.get_params() == fitted.get_params()
    assert (loaded.tasks_, loaded.fingerprint_, loaded.notes_) == (fitted.tasks_, fitted.fingerprint_, fitted.notes_)
    expected = fitted.score_tasks(video_log)
    for task, logits in loaded.score_tasks(video_log).items():
        assert np.array_equal(logits, expected[task])


def test_bad_requests_explain_themselves(click_log, video_log):
    with pytest.raises(InvalidInput, match="a DeepFM that has learned nothing"):
        DeepFM().score(click_log)
    with pytest.raises(UnknownName, match="task: got 'clik'.*did you mean 'click'"):
        DeepFM(task="clik").fit(click_log)
    with pytest.raises(InvalidInput, match="only the values"):
        HashedLogistic().fit(click_log.take(np.flatnonzero(click_log.labels["click"] == 0)))
    with pytest.raises(InvalidInput, match="train: got no rows"):
        HashedLogistic().fit(click_log.slice(0, 0))
    with pytest.raises(InvalidInput, match="field 'user_id' with .* ids; expected field 'site_id' with 2001 ids"):
        HashedLogistic().fit(click_log).score(video_log)
    with pytest.raises(InvalidInput, match="batch_rows: got 0"):
        DeepFM(batch_rows=0).fit(click_log)
    with pytest.raises(InvalidInput, match="learning_rate: got -1.0; expected a number > 0"):
        DeepFM(learning_rate=-1.0).fit(click_log)
    with pytest.raises(InvalidInput, match="n_threads: got 0"):
        DeepFM(n_threads=0).fit(click_log)
    with pytest.raises(InvalidInput, match="hidden"):
        DeepFM(hidden=()).fit(click_log)
    with pytest.raises(InvalidInput, match="bits: got 99"):
        HashedLogistic(bits=99).fit(click_log)
    for hidden in ("abc", ["abc"], 8):
        with pytest.raises(InvalidInput, match="hidden: got .*expected a list of whole numbers"):
            DeepFM(hidden=hidden).fit(click_log)
        with pytest.raises(InvalidInput, match="hidden: got .*expected a list of whole numbers"):
            ranker("deepfm", hidden=hidden)
    with pytest.raises(UnknownName, match="did you mean 'hashed_logistic'"):
        ranker("hashed_logistc")
    with pytest.raises(UnknownName, match="argument of 'deepfm': got 'learning_rat'"):
        ranker("deepfm", learning_rat=1.0)
    bare = EncodedLog.of(click_log.features, click_log.labels, click_log.vocabulary, click_log.roles)
    with pytest.raises(InvalidInput, match="no score column"):
        Precomputed().score(bare)
