"""A training run that is killed with SIGKILL goes on from its last checkpoint and ends with the same weights."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from monocal.lab.rankers import DeepFM, rank_log
from monocal.lab.simulator import simulate_log
from monocal.logs.encoded_log import EncodedLog

OPTIONS = {"hidden": (16, 8), "n_dimensions": 4, "batch_rows": 64, "n_threads": 1, "checkpoint_batches": 5}
RARE = {**OPTIONS, "checkpoint_batches": 40}

SCRIPT = """
import sys, time
from monocal.logs.encoded_log import EncodedLog
from monocal.lab.rankers import DeepFM, rank_log
from monocal.lab.rankers.fm.trainer import FmTrainer
plain = FmTrainer.step
def slow(self, *arguments):
    time.sleep(0.01)
    return plain(self, *arguments)
FmTrainer.step = slow
rank_log(EncodedLog.open(sys.argv[1]), DeepFM(**{options!r}), sys.argv[2])
"""


def whole_checkpoints(folder):
    """Names of finished checkpoints; one that is being written begins with a dot."""
    return sorted(path.name for path in folder.glob("*-batch-*") if not path.name.startswith("."))


@pytest.mark.timeout(120)
def test_a_killed_run_resumes_and_gives_identical_weights(tmp_path):
    log = simulate_log(20_000, seed=3).encoded().save(tmp_path / "log")
    target, checkpoints = tmp_path / "scored", tmp_path / ".scored.work" / "checkpoints"
    command = [sys.executable, "-c", SCRIPT.format(options=RARE), str(tmp_path / "log"), str(target)]
    process = subprocess.Popen(command)
    while not whole_checkpoints(checkpoints):
        assert process.poll() is None, "the run ended before its first checkpoint"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not target.exists()
    n_batches_done = int(whole_checkpoints(checkpoints)[-1].rsplit("-", 1)[1])
    n_batches = -(-log.parts["train"].n_rows // RARE["batch_rows"])
    assert 0 < n_batches_done < n_batches

    resumed = rank_log(EncodedLog.open(tmp_path / "log"), DeepFM(**RARE), target)
    whole = rank_log(log, DeepFM(**RARE), tmp_path / "without interruption")
    assert np.array_equal(resumed.logits["click"], whole.logits["click"])
    assert all(np.array_equal(a, b) for a, b in zip(resumed.embeddings, whole.embeddings, strict=True))
    assert not checkpoints.exists()


def test_resuming_really_skips_the_finished_batches(tmp_path, monkeypatch):
    from monocal.lab.rankers.fm.trainer import FmTrainer

    log = simulate_log(3000, seed=3).encoded()
    plain, steps = FmTrainer.step, []

    def stop_after_twelve(self, *arguments):
        if len(steps) == 12:
            raise KeyboardInterrupt
        steps.append(self.state.n_steps)
        return plain(self, *arguments)

    monkeypatch.setattr(FmTrainer, "step", stop_after_twelve)
    with pytest.raises(KeyboardInterrupt):
        DeepFM(**OPTIONS).fit(log, checkpoints=tmp_path)
    steps.clear()
    monkeypatch.setattr(FmTrainer, "step", lambda self, *a: steps.append(self.state.n_steps) or plain(self, *a))
    resumed = DeepFM(**OPTIONS).fit(log, checkpoints=tmp_path)
    assert steps[0] == 10
    whole = DeepFM(**OPTIONS).fit(log)
    assert resumed.losses_ == whole.losses_
    assert np.array_equal(resumed.score(log), whole.score(log))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_is_not_taken_for_a_whole_one(tmp_path, monkeypatch):
    from monocal.lab.rankers.fm.checkpoints import Checkpoints

    log = simulate_log(3000, seed=3).encoded()
    monkeypatch.setattr(Checkpoints, "clear", lambda self: None)
    whole = DeepFM(**OPTIONS).fit(log, checkpoints=tmp_path)
    (latest,) = tmp_path.glob("*-batch-*")
    store = latest / "store.safetensors"
    store.write_bytes(store.read_bytes()[:100])
    again = DeepFM(**OPTIONS).fit(log, checkpoints=tmp_path)
    assert np.array_equal(again.score(log), whole.score(log))


def test_what_a_kill_left_half_written_is_neither_read_nor_kept(tmp_path):
    log = simulate_log(3000, seed=3).encoded()
    ranker = DeepFM(**OPTIONS)
    half = tmp_path / f".{ranker.plan(log)[:16]}-batch-000000020.abcdefgh.part"
    half.mkdir()
    (half / "store.safetensors").write_bytes(b"half")
    fitted = ranker.fit(log, checkpoints=tmp_path)
    assert np.array_equal(fitted.score(log), DeepFM(**OPTIONS).fit(log).score(log))
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_of_other_work_are_left_alone(tmp_path, monkeypatch):
    from monocal.lab.rankers.fm.checkpoints import Checkpoints

    log = simulate_log(3000, seed=3).encoded()
    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "clear", lambda self: None)
        DeepFM(**OPTIONS, seed=1).fit(log, checkpoints=tmp_path)
    kept = list(tmp_path.iterdir())
    fresh = DeepFM(**OPTIONS, seed=2).fit(log, checkpoints=tmp_path)
    assert list(tmp_path.iterdir()) == kept
    assert np.array_equal(fresh.score(log), DeepFM(**OPTIONS, seed=2).fit(log).score(log))
