"""Fits by processes that torchrun started, on this machine's loopback."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.roles import Roles
from monocal.lab.simulator import simulate_log
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.row_log import log_of_rows
from monocal.models.fitting import fit_log
from monocal.tables.read import read

ROLES = Roles.of(score="pctr", label="click", fields=["site_id", "device"], time="timestamp")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    place = tmp_path_factory.mktemp("prepared") / "log"
    log_of_rows(read(simulate_log(40_000, seed=7).table(), ROLES).in_time_order()).save(place)
    return place


def started(n_processes, *arguments):
    source = str(Path(monocal.__file__).parents[1])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n_processes)]
    return subprocess.Popen(
        [*launcher, "-m", "monocal", *(str(one) for one in arguments)],
        env={**os.environ, "PYTHONPATH": source, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def torchrun(n_processes, *arguments):
    running = started(n_processes, *arguments)
    out, errors = running.communicate(timeout=500)
    return subprocess.CompletedProcess(running.args, running.returncode, out, errors)


@pytest.mark.parametrize(
    ("method", "settings"),
    [("wide_logistic", {"carry": "auto"}), ("umc", {"n_epochs": 1, "size": "small"})],
    ids=["wide", "umc"],
)
def test_two_processes_save_the_model_of_one(prepared, tmp_path, method, settings):
    options = ["--method", method, "--engine", "torchrun", "--shards", 4]
    for name, value in settings.items():
        options += ["--set", f"{name}={value}"]
    ended = torchrun(2, "fit", prepared, *options, "--out", tmp_path / "model")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("saved the model") == 1
    alone = fit_log(EncodedLog.open(prepared).part("calibration"), method, settings, n_shards=4)
    found, expected = (one.tasks[0].calibrator.state() for one in (monocal.load(tmp_path / "model"), alone))
    assert {name: array.tobytes() for name, array in found.arrays.items()} == {
        name: array.tobytes() for name, array in expected.arrays.items()
    }
    assert found.values == expected.values


def test_what_one_process_refuses_ends_all_and_saves_nothing(prepared, tmp_path):
    ended = torchrun(2, "fit", prepared, "--method", "desc", "--engine", "torchrun", "--out", tmp_path / "model")
    assert ended.returncode != 0
    assert "fit it on one machine" in ended.stderr
    assert not (tmp_path / "model").exists()


def test_a_killed_process_ends_all_and_saves_nothing(prepared, tmp_path):
    options = ["--method", "umc", "--set", "n_epochs=1000", "--engine", "torchrun", "--shards", 2]
    running = started(2, "fit", prepared, *options, "--out", tmp_path / "model")
    try:
        deadline = time.monotonic() + 300
        members = []
        # a member that is connected to the other one has begun to fit
        while time.monotonic() < deadline and not (
            len(members) == 2 and all(len(one.net_connections("tcp")) > 2 for one in members)
        ):
            time.sleep(0.2)
            members = psutil.Process(running.pid).children()
        assert len(members) == 2
        members[1].kill()
        _, errors = running.communicate(timeout=300)
    finally:
        running.kill()
    assert running.returncode != 0
    assert "SIGKILL" in errors or "-9" in errors
    assert not [one for one in members if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert not (tmp_path / "model").exists()


def test_without_a_launcher_the_line_to_type_is_shown(prepared, tmp_path, capsys, monkeypatch):
    from monocal.cli.main import main

    monkeypatch.delenv("RANK", raising=False)
    assert main(["fit", str(prepared), "--engine", "torchrun", "--out", str(tmp_path / "model")]) == 2
    assert "torchrun --nproc-per-node 2 -m monocal fit" in capsys.readouterr().err


def test_a_table_is_refused_because_every_process_would_read_all_of_it(tmp_path):
    pq.write_table(simulate_log(100).table(), tmp_path / "log.parquet")
    ended = torchrun(1, "fit", tmp_path / "log.parquet", "--engine", "torchrun", "--out", tmp_path / "model")
    assert ended.returncode != 0
    assert "run monocal prepare" in ended.stderr
