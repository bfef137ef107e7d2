"""A training run that is killed with SIGKILL goes on from its last checkpoint and ends with the same weights."""

import json
import signal
import subprocess
import sys
import time

import numpy as np

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
