"""Fits by processes that torchrun started, on this machine's loopback."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.roles import Roles
from monocal.core.team import DEALT_ROWS
from monocal.lab.simulator import simulate_log
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.row_log import log_of_rows
from monocal.models.fit_options import FitOptions
from monocal.models.fitting import fit_log
from monocal.tables.read import read
from monocal.training.process_group import leave_team

ROLES = Roles.of(score="pctr", label="click", fields=["site_id", "device"], time="timestamp")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    place = tmp_path_factory.mktemp("prepared") / "log"
    log_of_rows(read(simulate_log(40_000, seed=7).table(), ROLES).in_time_order()).save(place)
    return place


def started(n_processes, *arguments, n_restarts=0):
    source = str(Path(monocal.__file__).parents[1])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n_processes)]
    launcher += ["--max-restarts", str(n_restarts)]
    return subprocess.Popen(
        [*launcher, "-m", "monocal", *(str(argument) for argument in arguments)],
        env={**os.environ, "PYTHONPATH": source, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def torchrun(n_processes, *arguments):
    running = started(n_processes, *arguments)
    out, errors = running.communicate(timeout=500)
    return subprocess.CompletedProcess(running.args, running.returncode, out, errors)


def members_of(running):
    """The two processes of a fit, once they are connected with each other and have begun."""
    deadline = time.monotonic() + 300
    members = []
    while time.monotonic() < deadline and not (
        len(members) == 2 and all(len(member.net_connections("tcp")) > 2 for member in members)
    ):
        time.sleep(0.1)
        members = psutil.Process(running.pid).children()
    assert len(members) == 2
    return members


def alive(members):
    return [member for member in members if member.is_running() and member.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("wide_logistic", {"carry": "auto"}),
        ("umc", {"n_epochs": 1, "size": "small"}),
        ("umc", {"n_epochs": 1, "size": "small", "carry": "none", "sc_weight": 1.0}),
    ],
    ids=["wide", "umc", "smooth calibration loss"],
)
def test_two_processes_save_the_model_of_one(prepared, tmp_path, method, settings):
    options = ["--method", method, "--engine", "torchrun", "--shards", 4]
    for name, value in settings.items():
        options += ["--set", f"{name}={value}"]
    ended = torchrun(2, "fit", prepared, *options, "--out", tmp_path / "model")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("saved the model") == 1
    alone = fit_log(EncodedLog.open(prepared).part("calibration"), FitOptions(method, settings), n_shards=4)
    assert_same_bits(tmp_path / "model", alone)


def assert_same_bits(place, model):
    """Compares everything that the calibrators learned."""
    found, expected = (each.tasks[0].calibrator.state() for each in (monocal.load(place), model))
    assert {name: array.tobytes() for name, array in found.arrays.items()} == {
        name: array.tobytes() for name, array in expected.arrays.items()
    }
    assert found.values == expected.values


def test_a_process_without_rows_takes_part(tmp_path):
    """Rows are dealt in blocks of 4,096: of 3,000 the second process has none."""
    table = simulate_log(15_000, seed=8).table()
    log_of_rows(read(table, ROLES).in_time_order()).save(tmp_path / "log")
    part = EncodedLog.open(tmp_path / "log").part("calibration")
    assert part.n_rows < DEALT_ROWS
    options = ["--method", "wide_logistic", "--set", "recent_share=0.2", "--engine", "torchrun"]
    ended = torchrun(2, "fit", tmp_path / "log", *options, "--out", tmp_path / "model")
    assert ended.returncode == 0, ended.stderr
    assert_same_bits(tmp_path / "model", fit_log(part, FitOptions("wide_logistic", {"recent_share": 0.2}), n_shards=2))


def test_a_bad_label_of_one_process_ends_all_and_saves_nothing(tmp_path):
    log = log_of_rows(read(simulate_log(40_000, seed=7).table(), ROLES).in_time_order()).save(tmp_path / "log")
    (file,) = (path for path in (tmp_path / "log").glob("*.npy") if "label" in path.name)
    labels = np.load(file, mmap_mode="r+")
    labels[log.parts["calibration"].start + DEALT_ROWS + 17] = 2  # in the first block of the second process
    labels.flush()
    running = started(
        *(2, "fit", tmp_path / "log", "--method", "wide_logistic", "--engine", "torchrun", "--out", tmp_path / "model")
    )
    try:
        members = members_of(running)
        _, errors = running.communicate(timeout=300)
    finally:
        running.kill()
    assert running.returncode != 0
    assert "labels: got 2 at row 17" in errors
    assert not alive(members)
    assert not (tmp_path / "model").exists()


def test_what_one_process_refuses_ends_all_and_saves_nothing(prepared, tmp_path):
    ended = torchrun(2, "fit", prepared, "--method", "isotonic", "--engine", "torchrun", "--out", tmp_path / "model")
    assert ended.returncode != 0
    assert "fit it on one machine" in ended.stderr
    assert not (tmp_path / "model").exists()


def test_a_killed_process_ends_all_and_saves_nothing(prepared, tmp_path):
    options = ["--method", "umc", "--set", "n_epochs=1000", "--engine", "torchrun", "--shards", 2]
    running = started(2, "fit", prepared, *options, "--out", tmp_path / "model")
    try:
        members = members_of(running)
        members[1].kill()
        running.communicate(timeout=300)
    finally:
        running.kill()
    assert running.returncode != 0
    assert not alive(members)
    assert not (tmp_path / "model").exists()


def test_a_restarted_fit_goes_on_from_its_checkpoint_to_the_same_bits(prepared, tmp_path):
    """One of two processes is killed after an epoch; the launcher starts both again."""
    settings = {"n_epochs": 8, "size": "small", "carry": "none", "n_dimensions": 4}
    manifest = tmp_path / "checkpoint" / "checkpoint.json"
    options = ["--method", "umc", "--set", f"checkpoint={manifest.parent}", "--engine", "torchrun", "--shards", 2]
    for name, value in settings.items():
        options += ["--set", f"{name}={value}"]
    running = started(2, "fit", prepared, *options, "--out", tmp_path / "model", n_restarts=1)
    seen, members = [0], []
    try:
        while running.poll() is None:
            with suppress(FileNotFoundError, ValueError):  # between two checkpoints there is none
                seen.append(json.loads(manifest.read_text())["facts"]["history"]["n_epochs"])
            if seen[-1] and not members:
                members = psutil.Process(running.pid).children()
                members[1].kill()
                n_seen, n_epochs = len(seen), seen[-1]
            time.sleep(0.01)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 0, errors
    assert members  # one was killed; the launcher names it or its neighbour, whichever it saw end first
    assert seen == sorted(seen)  # no epoch was done again
    assert seen[-1] > n_epochs > 0
    assert len(seen) > n_seen
    assert not manifest.parent.exists()
    alone = fit_log(EncodedLog.open(prepared).part("calibration"), FitOptions("umc", settings), n_shards=2)
    assert_same_bits(tmp_path / "model", alone)


def test_without_a_launcher_the_line_to_type_is_shown(prepared, tmp_path, capsys, monkeypatch):
    from monocal.cli.main import main

    monkeypatch.delenv("RANK", raising=False)
    assert main(["fit", str(prepared), "--engine", "torchrun", "--out", str(tmp_path / "model")]) == 2
    assert "torchrun --nproc-per-node 2 -m monocal fit" in capsys.readouterr().err


def test_a_table_is_refused_because_every_process_would_read_all_of_it(tmp_path, capsys, monkeypatch):
    from monocal.cli.main import main

    # as torchrun says it to a process that is alone
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    table = tmp_path / "log.parquet"
    pq.write_table(simulate_log(100).table(), table)
    try:
        assert main(["fit", str(table), "--engine", "torchrun", "--out", str(tmp_path / "model")]) == 2
    finally:
        leave_team()
    assert "run monocal prepare" in capsys.readouterr().err
