"""Fits by processes that torchrun started, on this machine's loopback."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import monocal
from monocal.calibrators import calibrator
from monocal.core.process_group import leave
from monocal.core.reduce import DEALT_ROWS
from monocal.lab.simulator import simulate_log
from monocal.models.fit import fit_log, rows_to_fit
from monocal.tables.roles import Roles

ROLES = Roles(score="pctr", label="click", fields=["site_id", "device"], time="timestamp")
TWO = ["--standalone", "--nproc-per-node", 2]
FIT = [*TWO, "-m", "monocal", "fit"]
KILLED = Path(__file__).with_name("killed_member.py")


def set_to(settings):
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def test_two_processes_save_the_model_of_one(launched, prepared, tmp_path):
    settings = {"n_epochs": 1, "size": "small"}
    options = ["--method", "umc", *set_to(settings), "--engine", "torchrun", "--n-shards", 4]
    ended = launched(FIT, prepared, *options, "--out", tmp_path / "model").ended()
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("saved the model") == 1
    alone = fit_log(rows_to_fit(prepared, {}), calibrator("umc", **settings), n_shards=4)
    assert_same_bits(tmp_path / "model", alone)


def assert_same_bits(place, model):
    """Compares everything that the calibrators learned."""
    found, expected = (each.tasks[0].calibrator.state() for each in (monocal.load(place), model))
    assert {name: array.tobytes() for name, array in found.arrays.items()} == {
        name: array.tobytes() for name, array in expected.arrays.items()
    }
    assert found.values == expected.values


def test_a_process_without_rows_takes_part(launched, tmp_path, save_with_parts):
    """Rows are dealt in blocks of 4,096: of 3,000 the second process has none."""
    save_with_parts(simulate_log(10_000, seed=8).table(), ROLES, tmp_path / "log")
    part = rows_to_fit(tmp_path / "log", {})
    assert part.n_rows < DEALT_ROWS
    options = ["--method", "wide_logistic", "--set", "recent_share=0.2", "--engine", "torchrun"]
    ended = launched(FIT, tmp_path / "log", *options, "--out", tmp_path / "model").ended()
    assert ended.returncode == 0, ended.stderr
    assert_same_bits(tmp_path / "model", fit_log(part, calibrator("wide_logistic", recent_share=0.2), n_shards=2))


def test_a_bad_label_of_one_process_ends_all_and_saves_nothing(launched, tmp_path, save_with_parts):
    log = save_with_parts(simulate_log(40_000, seed=7).table(), ROLES, tmp_path / "log")
    (file,) = (path for path in (tmp_path / "log").glob("*.npy") if "label" in path.name)
    labels = np.load(file, mmap_mode="r+")
    labels[log.parts["calibration"][0] + DEALT_ROWS + 17] = 2  # in the first block of the second process
    labels.flush()
    options = ["--method", "wide_logistic", "--engine", "torchrun", "--out", tmp_path / "model"]
    launcher = launched(FIT, tmp_path / "log", *options)
    ended = launcher.ended()
    assert ended.returncode != 0
    assert "labels: got 2 at row 17" in ended.stderr
    assert len(launcher.members) >= 2
    assert not launcher.left_behind()
    assert not (tmp_path / "model").exists()


SETTINGS = {"carry": "auto", "l2": "auto"}


def killed_fit(launched, prepared, place, n_restarts):
    """Returns the launcher of a fit of whose processes one is killed on the way."""
    options = ["--method", "wide_logistic", *set_to(SETTINGS), "--engine", "torchrun", "--n-shards", 2]
    words = [KILLED, "fit", prepared, *options, "--out", place / "model"]
    return launched([*TWO, "--max-restarts", n_restarts], *words)


def test_a_killed_process_ends_all_and_saves_nothing(launched, prepared, tmp_path):
    launcher = killed_fit(launched, prepared, tmp_path, 0)
    assert launcher.ended().returncode != 0
    assert len(launcher.members) >= 2
    assert not launcher.left_behind()
    assert not (tmp_path / "model").exists()


def test_a_restarted_fit_ends_with_the_same_bits(launched, prepared, tmp_path):
    """One of two processes is killed on the way; the launcher starts both again."""
    ended = killed_fit(launched, prepared, tmp_path, 1).ended()
    assert ended.returncode == 0, ended.stderr
    alone = fit_log(rows_to_fit(prepared, {}), calibrator("wide_logistic", **SETTINGS), n_shards=2)
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
        columns = ["--score", "pctr", "--label", "click", "--fields", "site_id"]
        assert main(["fit", str(table), *columns, "--engine", "torchrun", "--out", str(tmp_path / "model")]) == 2
    finally:
        leave()
    assert "run monocal lab prepare" in capsys.readouterr().err
