"""The online level: what it learns, how far it may go, and that its log alone gives it back."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.spaces import shift_probabilities, sigmoid
from monocal.operations.online_level import FeedbackLog, LevelRules, OnlineLevel, replay
from monocal.operations.online_level.feedback_log import files_of

RULES = LevelRules(fields=("site",), batch_rows=100)
SIZES = {"site": 4}


def rows_of(rng, n, level=0.0, by_site=(0.0, 0.0, 0.0, 0.0)):
    base = rng.normal(-1.0, 1.0, n)
    sites = rng.integers(0, 4, n)
    labels = rng.random(n) < sigmoid(base + level + np.array(by_site)[sites])
    return {"base": base.tolist(), "labels": labels.astype(float).tolist(), "ids": {"site": sites.tolist()}}


def log_loss(p, y):
    return -np.mean(np.where(y > 0, np.log(p), np.log1p(-p)))


def test_a_planted_level_and_a_planted_shift_are_found():
    rng = np.random.default_rng(1)
    level = OnlineLevel(LevelRules(fields=("site",), batch_rows=500), SIZES)
    level.learn("click", **rows_of(rng, 40_000, 0.3, (0.0, 0.0, 0.0, -0.4)))
    found = level.corrections("click", {"site": np.array([1, 2, 3])}, 3)
    np.testing.assert_allclose(found, [0.3, 0.3, -0.1], atol=0.12)


def test_without_drift_the_level_stays_near_nothing():
    level = OnlineLevel(LevelRules(batch_rows=1000), {})
    rng = np.random.default_rng(2)
    for _ in range(60):
        rows = rows_of(rng, 1000)
        level.learn("click", base=rows["base"], labels=rows["labels"], ids={})
    assert abs(level.corrections("click", {}, 1)[0]) < 0.06
    assert level.summary()["click"]["drift_rate"] < 0.03


def test_a_wandering_level_is_followed_and_the_loss_falls():
    rng = np.random.default_rng(3)
    level = OnlineLevel(LevelRules(batch_rows=1000), {})
    true_level, frozen, followed = 0.0, [], []
    for _ in range(60):
        true_level = np.clip(true_level + rng.normal(0, 0.08), -0.45, 0.45)
        rows = rows_of(rng, 1000, true_level)
        y, base = np.array(rows["labels"]), np.array(rows["base"])
        frozen.append(log_loss(sigmoid(base), y))
        followed.append(log_loss(sigmoid(base + level.corrections("click", {}, 1000)), y))
        level.learn("click", base=rows["base"], labels=rows["labels"], ids={})
    gains = np.array(frozen) - np.array(followed)
    assert gains.mean() > 3 * gains.std() / np.sqrt(gains.size)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_no_labels_move_it_beyond_its_limits(label):
    level = OnlineLevel(LevelRules(batch_rows=100, max_step=0.05, max_total=0.2), {})
    before = 0.0
    for _ in range(20):
        level.learn("click", base=[0.0] * 100, labels=[label] * 100, ids={})
        now = float(level.corrections("click", {}, 1)[0])
        assert abs(now - before) <= 0.05 + 1e-15
        assert abs(now) <= 0.2
        before = now
    assert abs(before) == pytest.approx(0.2)


def test_order_is_kept_to_the_last_bit():
    rng = np.random.default_rng(4)
    p = np.sort(rng.random(20_000))
    neighbours = np.sort(np.concatenate([p, np.nextafter(p, 1.0)]))
    for shift in rng.uniform(-1, 1, 20):
        moved = shift_probabilities(neighbours, np.full(neighbours.size, shift))
        assert (np.diff(moved) >= 0.0).all()


def test_unseen_values_get_the_tasks_level_alone():
    level = OnlineLevel(RULES, SIZES)
    level.learn("click", **rows_of(np.random.default_rng(5), 2000, 0.3, (0.9, 0, 0, 0)))
    task = level.to_json()["tasks"]["click"]
    assert 0 not in task["by_field"]["site"]["met"]


@pytest.fixture
def log(tmp_path):
    log = FeedbackLog(tmp_path / "level", RULES)
    log.begin("a" * 32, SIZES)
    log.read()
    return log


def test_the_log_alone_gives_the_level_back_to_the_last_bit(log):
    rng = np.random.default_rng(6)
    reader = FeedbackLog(log.folder, RULES)
    for n in (30, 250, 1, 170):
        assert log.append("a" * 32, {"click": rows_of(rng, n, 0.2)})
        log.read()
        reader.read()
    version, again = replay(log.folder)
    assert version == "a" * 32
    assert json.dumps(again.to_json()) == json.dumps(log.level.to_json()) == json.dumps(reader.level.to_json())
    assert again.n_steps("click") == 4


def test_a_long_file_is_followed_by_one_that_begins_with_the_whole_level(tmp_path):
    rng = np.random.default_rng(7)
    log = FeedbackLog(tmp_path / "level", RULES, file_bytes=20_000)
    log.begin("a" * 32, SIZES)
    for _ in range(12):
        log.append("a" * 32, {"click": rows_of(rng, 130, 0.2)})
        log.read()
        log.follow_with_new_file()
    files = files_of(log.folder)
    assert len(files) > 2
    log.read()
    whole = replay(log.folder)[1].to_json()
    assert whole == log.level.to_json()
    for path in files[:-1]:
        path.rename(tmp_path / path.name)
    assert replay(log.folder)[1].to_json() == whole
    late = FeedbackLog(log.folder, RULES)
    late.read()
    assert late.level.to_json() == whole


def test_another_model_other_rules_and_a_reset_begin_anew(log):
    rows = {"click": rows_of(np.random.default_rng(8), 300, 0.4)}
    log.append("a" * 32, rows)
    log.read()
    assert log.level.corrections("click", {"site": np.array([1])}, 1)[0] != 0.0
    log.begin("a" * 32, SIZES)
    log.read()
    assert log.level.n_steps("click") == 3  # nothing has changed, so it goes on
    log.reset()
    log.read()
    assert log.level.n_steps("click") == 0
    assert not log.append("b" * 32, rows)
    log.begin("b" * 32, SIZES)
    assert not log.append("a" * 32, rows)
    assert log.append("b" * 32, rows)
    log.read()
    assert log.level.n_steps("click") == 3
    assert replay(log.folder)[0] == "b" * 32


def test_a_torn_last_line_is_ignored_and_a_changed_line_refused(log):
    rng = np.random.default_rng(9)
    log.append("a" * 32, {"click": rows_of(rng, 150)})
    path = files_of(log.folder)[0]
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines(keepends=True)[-1][:-40])
    assert replay(log.folder)[1].n_steps("click") == 1
    log.append("a" * 32, {"click": rows_of(rng, 150)})
    assert replay(log.folder)[1].n_steps("click") == 3
    content = bytearray(path.read_bytes())
    content[len(whole) - 60] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ArtefactError, match="does not match its checksum"):
        replay(log.folder)


def test_a_full_disk_loses_nothing_that_was_there(log, monkeypatch):
    rng = np.random.default_rng(10)
    log.append("a" * 32, {"click": rows_of(rng, 150)})
    before = files_of(log.folder)[0].read_bytes()
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, content, at: write(descriptor, content[:50], at))
    with pytest.raises(OSError, match="space"):
        log.append("a" * 32, {"click": rows_of(rng, 150)})
    assert files_of(log.folder)[0].read_bytes() == before


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"notes\.txt"):
        FeedbackLog(tmp_path, RULES)


KILLED = """
import sys
from pathlib import Path
from monocal.operations.online_level import FeedbackLog, LevelRules
log = FeedbackLog(Path(sys.argv[1]), LevelRules(fields=("site",), batch_rows=100), file_bytes=30_000)
log.begin("a" * 32, {"site": 4})
number = 0
print("ready", flush=True)
while True:
    number += 1
    log.append("a" * 32, {"click": {"base": [0.1] * 40, "labels": [1.0] * 40, "ids": {"site": [number % 4] * 40}}})
    log.read()
    log.follow_with_new_file()
    print(number, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_writers_killed_at_random_moments_lose_at_most_their_last_call(tmp_path, seed):
    rng = np.random.default_rng(seed)
    acknowledged = 0
    for _ in range(2):
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "level")], stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"ready\n"
        for _ in range(int(rng.integers(3, 40))):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.stdout.close()
        writer.wait()
        acknowledged += int(rest[-1]) if rest and rest[-1].isdigit() else 0
        level = replay(tmp_path / "level")[1]
        state = level.to_json()["tasks"].get("click")
        n_rows = 0 if state is None else 100 * state["n_steps"] + len(state["waiting"]["base"])
        assert n_rows % 40 == 0
        assert n_rows >= 40 * acknowledged
