"""Encoding is killed for real at every step; nothing unfinished is ever taken for finished."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.lab.prepare import encoder
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.encoder import encode_log
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import Vocabulary

SCHEMA = Roles(labels="y", fields=["f", "g"], time="t", group="f")
N_ROWS = 2000

# the child stops for good where it is told to, and says so; the parent then kills it
CHILD = """
import sys, time
from monocal.lab.prepare import encoder, reading, steps, time_order, work_folder
from monocal.tables import csv as csv_module
from monocal.tables.roles import Roles

where, log, folder = sys.argv[1:]
steps._CHECKPOINT_ROWS = 300
csv_module.BLOCK_BYTES = 4000
calls = 0

def stop_at(owner, name, n_calls):
    real = getattr(owner, name)
    def stopping(*args, **kwargs):
        global calls
        calls += 1
        if calls >= n_calls:
            print("stopped", flush=True)
            time.sleep(60)
        return real(*args, **kwargs)
    setattr(owner, name, stopping)

module, name, n_calls = where.split(":")
owner = sys.modules["monocal.lab.prepare." + module.split(".")[0]]
for part in module.split(".")[1:]:
    owner = getattr(owner, part)
stop_at(owner, name, int(n_calls))
schema = Roles(labels="y", fields=["f", "g"], time="t", group="f")
encoder.encode_log(log, schema, folder, min_count=1)
"""

STEPS = {
    "while reading the text": "reading:_to_batch:3",
    "while counting": "steps.ValueCounts:add:2",
    "while encoding, before a checkpoint": "time_order.ArrayFile:append:3",
    "while encoding, after a checkpoint": "steps.Vocabulary:encode:6",
    "while sorting": "time_order:_sort_bucket:1",
    "before the manifest": "encoder:write_manifest:1",
    "before the folder gets its place": "work_folder.FolderFormat:publish:1",
}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "y": rng.integers(0, 2, N_ROWS),
            "f": np.char.add("f", rng.integers(0, 30, N_ROWS).astype(str)),
            "g": rng.integers(0, 50, N_ROWS),
            "t": rng.integers(0, 500, N_ROWS),
        }
    )
    path = tmp_path_factory.mktemp("log") / "log.csv"
    pa_csv.write_csv(table, path)
    return path


@pytest.fixture(scope="module")
def expected(log):
    return encode_log(log, SCHEMA, log.parent / "expected", min_count=1).fingerprint


def _kill_at(where, log, folder):
    source = str(Path(encoder.__file__).parents[3])
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, where, str(log), str(folder)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
        text=True,
    ) as child:
        assert child.stdout.readline() == "stopped\n"
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
def test_killed_work_is_not_finished_and_a_second_run_completes_it(step, log, expected, tmp_path):
    folder = tmp_path / "out"
    _kill_at(STEPS[step], log, folder)
    with pytest.raises(ArtefactError, match="there is no such folder; an encoded log is a folder"):
        EncodedLog.open(folder)
    finished = encode_log(log, SCHEMA, folder, min_count=1)
    assert finished.fingerprint == expected
    assert EncodedLog.open(folder, check_contents=True).n_rows == N_ROWS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_encoding_continues_after_the_last_checkpoint(log, expected, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    _kill_at(STEPS["while encoding, after a checkpoint"], log, folder)
    encoded = []
    real = Vocabulary.encode
    monkeypatch.setattr(Vocabulary, "encode", lambda self, rows: (encoded.append(len(rows)), real(self, rows))[1])
    assert encode_log(log, SCHEMA, folder, min_count=1).fingerprint == expected
    assert 0 < sum(encoded) < N_ROWS


def test_an_interrupted_exchange_of_sorted_files_is_finished(log, expected, tmp_path, monkeypatch):
    real, calls = Path.replace, []

    def failing(self, target):
        if self.suffix == ".sorted":
            calls.append(self.name)
            if len(calls) == 2:
                raise KeyboardInterrupt
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        with pytest.raises(KeyboardInterrupt):
            encode_log(log, SCHEMA, tmp_path / "out", min_count=1)
    assert not (tmp_path / "out").exists()
    assert encode_log(log, SCHEMA, tmp_path / "out", min_count=1).fingerprint == expected


def test_work_with_other_options_is_not_continued(log, tmp_path):
    folder = tmp_path / "out"
    _kill_at(STEPS["while encoding, after a checkpoint"], log, folder)
    other = encode_log(log, SCHEMA, folder, min_count=5)
    assert other.fingerprint == encode_log(log, SCHEMA, tmp_path / "expected", min_count=5).fingerprint


def test_two_processes_never_write_the_same_folder(log, tmp_path):
    source = str(Path(encoder.__file__).parents[3])
    where = STEPS["while counting"]
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, where, str(log), str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
        text=True,
    ) as child:
        assert child.stdout.readline() == "stopped\n"
        with pytest.raises(InvalidInput, match="which another process is writing"):
            encode_log(log, SCHEMA, tmp_path / "out", min_count=1)
        child.kill()
