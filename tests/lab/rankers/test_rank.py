"""Ranking keeps its result, recognises repeated work, and refuses what does not belong together."""

import json

import numpy as np
import pytest

from monocal.core.errors import ArtefactError, UnknownName
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers import DeepFM, HashedLogistic, ScoredLog, rank_log
from monocal.lab.simulator import simulate_log

SMALL = {"hidden": (8,), "n_dimensions": 4, "batch_rows": 512, "n_threads": 1}


@pytest.fixture(scope="module")
def saved_log(tmp_path_factory):
    return simulate_log(4000, world="multitask").encoded().save(tmp_path_factory.mktemp("logs") / "log")


def test_every_row_gets_a_logit_from_the_training_part_alone_and_a_scored_log_opens_again(saved_log, tmp_path):
    scored = rank_log(saved_log, DeepFM(**SMALL), tmp_path / "scored")
    by_hand = DeepFM(**SMALL).fit(saved_log.part("train"))
    assert scored.tasks == ("click",)
    assert np.array_equal(scored.logits["click"], by_hand.score(saved_log))
    assert all(np.array_equal(a, b) for a, b in zip(scored.embeddings, by_hand.embeddings(), strict=True))
    assert "lazy" in scored.notes[0]
    opened = ScoredLog.open(tmp_path / "scored", check_contents=True)
    assert opened.fingerprint == scored.fingerprint
    assert np.array_equal(opened.logits["click"], scored.logits["click"])
    assert np.array_equal(opened.log.features, saved_log.features)
    part, rows = opened.part("calibration"), saved_log.parts["calibration"].rows
    assert np.array_equal(part.logits["click"], scored.logits["click"][rows])
    assert np.array_equal(part.log.features, saved_log.features[rows])


def test_repeated_work_is_recognised(saved_log, tmp_path):
    first = rank_log(saved_log, DeepFM(**SMALL), tmp_path / "scored")
    stamp = (tmp_path / "scored" / "scored_log.json").stat().st_mtime_ns
    again = rank_log(saved_log, DeepFM(**{**SMALL, "n_threads": 2}), tmp_path / "scored")
    assert (tmp_path / "scored" / "scored_log.json").stat().st_mtime_ns == stamp
    assert first.fingerprint == again.fingerprint
    other = rank_log(saved_log, DeepFM(**SMALL, seed=5), tmp_path / "scored")
    assert (tmp_path / "scored" / "scored_log.json").stat().st_mtime_ns != stamp
    assert other.fingerprint != first.fingerprint


def test_samples_leave_out_what_was_not_observed_undo_the_sampling_and_keep_times(saved_log):
    labels = saved_log.labels["click"].copy()
    labels[::3] = -1
    rates = np.full(saved_log.n_rows, 0.1)
    times = np.arange(saved_log.n_rows)
    log = EncodedLog.of(
        saved_log.features, {"click": labels}, saved_log.vocabulary, saved_log.roles, times=times, sampling_rates=rates
    )
    samples = ScoredLog(log, {"click": np.zeros(log.n_rows)}, None, "mark").samples()
    assert samples.n_rows == np.count_nonzero(labels >= 0)
    assert np.allclose(samples.z, np.log(0.1))
    assert np.array_equal(samples.labels, labels[labels >= 0])
    assert np.array_equal(samples.times, times[labels >= 0])


def test_what_does_not_belong_together_is_refused(saved_log, tmp_path):
    scored = rank_log(saved_log, HashedLogistic(bits=12), tmp_path / "scored")
    with pytest.raises(ArtefactError, match="belongs to another log"):
        ScoredLog.open(tmp_path / "scored", saved_log.slice(0, 10))
    with pytest.raises(UnknownName, match="part: got 'calib'.*did you mean 'calibration'"):
        scored.part("calib")
    with pytest.raises(UnknownName, match="task: got 'clck'"):
        scored.samples("clck")
    with pytest.raises(ArtefactError, match="there is no such file; a scored log is a folder"):
        ScoredLog.open(tmp_path)
    path = tmp_path / "scored" / "scored_log.json"
    manifest = json.loads(path.read_text())
    (tmp_path / "scored" / manifest["logits"]["click"]).write_bytes(b"")
    with pytest.raises(ArtefactError, match="0 bytes instead of"):
        ScoredLog.open(tmp_path / "scored", check_contents=True)
    path.write_text(json.dumps(manifest | {"schema_version": 4}))
    with pytest.raises(ArtefactError, match="schema version 4"):
        ScoredLog.open(tmp_path / "scored")
    path.write_text("{")
    with pytest.raises(ArtefactError, match="not a whole JSON file"):
        ScoredLog.open(tmp_path / "scored")
