"""Every ranker learns from simulated clicks, does so reproducibly, and comes back from disk unchanged."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from monocal.core.errors import ArtefactError, InvalidInput, UnknownName
from monocal.core.format import fingerprint
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers import RANKERS, DeepFM, HashedLogistic, MultiTaskDeepFM, Precomputed, load_ranker, ranker
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
    fitted = clone(one).fit(train, test)
    assert roc_auc_score(test.labels["click"], fitted.score(test)) > 0.6
    rate = float(np.mean(test.labels["click"]))
    entropy = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
    assert fitted.valid_log_loss_["click"] < entropy


def test_training_loss_goes_down(click_log):
    losses = DeepFM(**SMALL, n_epochs=3).fit(click_log).losses_
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.02


def test_several_tasks_are_learned_at_once(video_log):
    fitted = MultiTaskDeepFM(**SMALL, n_epochs=4).fit(video_log)
    scores = fitted.score_tasks(video_log)
    assert list(scores) == ["click", "effective_view", "long_view"]
    for task, logits in scores.items():
        assert roc_auc_score(video_log.labels[task], logits) > 0.6
        assert abs(np.mean(1 / (1 + np.exp(-logits))) / video_log.labels[task].mean() - 1) < 0.2


def test_with_one_task_the_multi_task_ranker_is_deepfm(video_log):
    single = DeepFM(task="click", **SMALL).fit(video_log)
    several = MultiTaskDeepFM(tasks=["click"], **SMALL).fit(video_log)
    assert np.array_equal(single.score(video_log), several.score(video_log))


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


@pytest.mark.parametrize("one", EVERY, ids=name_of)
def test_fitting_again_forgets_what_was_learned_and_changes_nothing_given(one, click_log, video_log):
    twice = clone(one).fit(video_log).fit(click_log)
    assert twice.tasks_ == ("click",)
    assert np.array_equal(twice.score(click_log), clone(one).fit(click_log).score(click_log))


def test_the_fingerprint_ignores_threads_but_not_rows(click_log):
    plan = DeepFM(**SMALL).plan(click_log)
    assert DeepFM(**{**SMALL, "n_threads": 2}, checkpoint_batches=7).plan(click_log) == plan
    assert DeepFM(**SMALL).plan(click_log.part("train")) != plan


def test_precomputed_scores_are_the_logs_own(video_log):
    scores = Precomputed().score_tasks(video_log)
    for task, logits in scores.items():
        assert np.allclose(1 / (1 + np.exp(-logits)), video_log.scores[task], atol=1e-9)
    assert Precomputed().embeddings() is None


def test_embeddings_are_one_table_per_field(click_log):
    tables = DeepFM(**SMALL).fit(click_log).embeddings()
    assert [table.shape for table in tables] == [(size, 4) for size in click_log.field_sizes]
    assert HashedLogistic().fit(click_log).embeddings() is None


def test_the_default_has_the_papers_size_and_a_layer_more_the_authors(click_log):
    rows = click_log.slice(0, 200)
    kinds = [DeepFM(n_threads=1), DeepFM(hidden=(512, 256, 128, 64), n_threads=1)]
    first_layer = 512 * 16 * (21 - click_log.n_fields)
    assert [kind.fit(rows).n_dense_parameters + first_layer for kind in kinds] == [336_896, 345_088]


def sealed(manifest):
    """The text of a manifest with the fingerprint that it should have."""
    entries = {name: value for name, value in manifest.items() if name != "fingerprint"}
    return json.dumps(entries | {"fingerprint": fingerprint(entries)})


def test_rows_without_a_label_teach_nothing(click_log):
    half = click_log.labels["click"].copy()
    half[3000:] = -1
    masked = EncodedLog.of(click_log.features, {"click": half}, click_log.vocabulary, click_log.roles)
    full = HashedLogistic().fit(click_log.slice(0, 3000))
    assert np.allclose(full.score(click_log), HashedLogistic().fit(masked).score(click_log), atol=0.2)
    assert np.isfinite(DeepFM(**SMALL).fit(masked).losses_).all()


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


def test_damaged_folders_are_refused(click_log, tmp_path):
    folder = tmp_path / "ranker"
    HashedLogistic(bits=10).fit(click_log).save(folder)
    with pytest.raises(InvalidInput, match="got a HashedLogistic; expected a DeepFM"):
        DeepFM.load(folder)
    manifest = json.loads((folder / "ranker.json").read_text())
    for change, message in [
        ({"schema_version": 99}, "schema version 99"),
        ({"class": "os.system"}, "does not know"),
        ({"format": "x"}, "not a monocal ranker"),
        ({"parameters": {"nonsense": 1}}, "damaged"),
    ]:
        (folder / "ranker.json").write_text(sealed(manifest | change))
        with pytest.raises(ArtefactError, match=message):
            load_ranker(folder)
    (folder / "ranker.json").write_text(json.dumps(manifest))
    state = (folder / "state.safetensors").read_bytes()
    (folder / "state.safetensors").write_bytes(state[:-4])
    with pytest.raises(ArtefactError, match="bytes instead of"):
        load_ranker(folder)
    with pytest.raises(ArtefactError, match="there is no such file; a saved ranker is a folder"):
        load_ranker(tmp_path)


def test_every_ranker_is_exported_under_its_name():
    assert {name: kind.name for name, kind in RANKERS.items()} == {name: name for name in RANKERS}
    assert all(getattr(kind, "__final__", False) for kind in RANKERS.values())
