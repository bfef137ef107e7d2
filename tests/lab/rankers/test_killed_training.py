"""A training run that is killed with SIGKILL goes on from its last checkpoint and ends with the same weights."""

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers import DeepFM, rank_log
from monocal.lab.simulator import simulate_log

OPTIONS = {"hidden": (16, 8), "n_dimensions": 4, "batch_rows": 64, "n_threads": 1, "checkpoint_batches": 5}
RARE = {**OPTIONS, "checkpoint_batches": 40}

SCRIPT = """
import sys, time
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.rankers import DeepFM, rank_log
from monocal.lab.rankers.objective import RankerObjective
plain = RankerObjective.gradients
def slow(self, batch):
    time.sleep(0.01)
    return plain(self, batch)
RankerObjective.gradients = slow
rank_log(EncodedLog.open(sys.argv[1]), DeepFM(**{options!r}), sys.argv[2])
"""


def steps_of(checkpoints):
    """Steps taken by the checkpoint of the one piece of work in a folder; 0 if there is none."""
    places = list(checkpoints.glob("[!.]*/checkpoint.json"))
    return len(json.loads(places[0].read_text())["facts"]["losses"]) if places else 0


def test_a_killed_run_resumes_and_gives_identical_weights(tmp_path):
    log = simulate_log(20_000, seed=3).encoded().save(tmp_path / "log")
    target, checkpoints = tmp_path / "scored", tmp_path / ".scored.work" / "checkpoints"
    command = [sys.executable, "-c", SCRIPT.format(options=RARE), str(tmp_path / "log"), str(target)]
    process = subprocess.Popen(command)
    try:
        while not steps_of(checkpoints):
            assert process.poll() is None, "the run ended before its first checkpoint"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        code = process.wait()
    assert code == -signal.SIGKILL
    assert not target.exists()
    n_batches_done = steps_of(checkpoints)
    n_batches = -(-log.parts["train"].n_rows // RARE["batch_rows"])
    assert 0 < n_batches_done < n_batches

    resumed = rank_log(EncodedLog.open(tmp_path / "log"), DeepFM(**RARE), target)
    whole = rank_log(log, DeepFM(**RARE), tmp_path / "without interruption")
    assert np.array_equal(resumed.logits["click"], whole.logits["click"])
    assert all(np.array_equal(a, b) for a, b in zip(resumed.embeddings, whole.embeddings, strict=True))
    assert not checkpoints.exists()


def test_resuming_really_skips_the_finished_batches(tmp_path, monkeypatch):
    from monocal.lab.rankers.objective import RankerObjective

    log = simulate_log(3000, seed=3).encoded()
    plain, rows = RankerObjective.gradients, []

    def stop_after_twelve(self, batch):
        if len(rows) == 12:
            raise KeyboardInterrupt
        rows.append(int(batch["rows"][0]))
        return plain(self, batch)

    monkeypatch.setattr(RankerObjective, "gradients", stop_after_twelve)
    with pytest.raises(KeyboardInterrupt):
        DeepFM(**OPTIONS).fit(log, checkpoints=tmp_path)
    rows.clear()
    monkeypatch.setattr(
        RankerObjective, "gradients", lambda self, batch: rows.append(int(batch["rows"][0])) or plain(self, batch)
    )
    resumed = DeepFM(**OPTIONS).fit(log, checkpoints=tmp_path)
    assert rows[0] == 10 * OPTIONS["batch_rows"]
    whole = DeepFM(**OPTIONS).fit(log)
    assert resumed.losses_ == whole.losses_
    assert np.array_equal(resumed.score(log), whole.score(log))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def unfinished(tmp_path, monkeypatch):
    """Interrupts a training after twelve batches and returns its checkpoint."""
    from monocal.lab.rankers.objective import RankerObjective

    def interrupt(log, **options):
        plain, left = RankerObjective.gradients, iter(range(12))

        def gradients(self, batch):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return plain(self, batch)

        before = set(tmp_path.iterdir())
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(RankerObjective, "gradients", gradients)
            DeepFM(**OPTIONS, **options).fit(log, checkpoints=tmp_path)
        (found,) = set(tmp_path.iterdir()) - before
        return found

    return interrupt


def test_a_damaged_checkpoint_is_not_taken_for_a_whole_one(tmp_path, unfinished):
    log = simulate_log(3000, seed=3).encoded()
    tensors = unfinished(log) / "checkpoint.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:100])
    again = DeepFM(**OPTIONS).fit(log, checkpoints=tmp_path)
    assert np.array_equal(again.score(log), DeepFM(**OPTIONS).fit(log).score(log))
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_left_half_written_is_neither_read_nor_kept(tmp_path, unfinished):
    log = simulate_log(3000, seed=3).encoded()
    whole = unfinished(log)
    half = tmp_path / f".{whole.name}.abcdefgh.part"
    shutil.copytree(whole, half)
    (half / "checkpoint.safetensors").write_bytes(b"half")
    fitted = DeepFM(**OPTIONS).fit(log, checkpoints=tmp_path)
    assert np.array_equal(fitted.score(log), DeepFM(**OPTIONS).fit(log).score(log))
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_of_other_work_are_left_alone(tmp_path, unfinished):
    log = simulate_log(3000, seed=3).encoded()
    kept = unfinished(log, seed=1)
    fresh = DeepFM(**OPTIONS, seed=2).fit(log, checkpoints=tmp_path)
    assert list(tmp_path.iterdir()) == [kept]
    assert np.array_equal(fresh.score(log), DeepFM(**OPTIONS, seed=2).fit(log).score(log))
