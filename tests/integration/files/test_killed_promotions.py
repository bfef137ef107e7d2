"""A promotion or rollback that is killed at any moment leaves the state before or after; no writer loses a step."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MODELS = """
import json, os, shutil, signal, sys
from pathlib import Path
import monocal
from monocal.monitoring.registry import promote, read_registry, rollback
place = Path(sys.argv[1])
LOG = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}

def saved(method, level=0):
    model = monocal.fit({**LOG, "pctr": [p + level for p in LOG["pctr"]]}, method=method, score="pctr", label="click")
    return model.save(place / f"{method}{level}")
"""

KILL_EVERYWHERE = (
    MODELS
    + """
EVENTS = {"open", "fcntl.flock"} | {
    f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "chmod", "listdir", "scandir")
}
old, new, third = saved("none"), saved("platt"), saved("beta")
pristine, registry = place / "pristine", place / "registry"
if sys.argv[2] != "first promotion":
    promote(old, pristine)
if sys.argv[2] == "rollback":
    promote(new, pristine)
act = (lambda: rollback(registry)) if sys.argv[2] == "rollback" else (lambda: promote(new, registry))

def act_and_die_at(k):
    calls = 0
    def count(*_):
        nonlocal calls
        calls += 1
        if calls == k:
            os.kill(os.getpid(), signal.SIGKILL)
    sync = os.fsync
    def counted(descriptor):
        count()
        sync(descriptor)
        count()
    os.fsync = counted
    sys.addaudithook(lambda event, arguments: count() if event in EVENTS else None)
    act()
    os._exit(0)

def state():
    # load checks the active model to the last byte
    if not (registry / "registry.json").exists():
        return 0
    found = read_registry(registry)
    found.load()
    return found.current.generation

found = []
for k in range(1, 1000):
    shutil.rmtree(registry, ignore_errors=True)
    if pristine.exists():
        shutil.copytree(pristine, registry)
        (registry / "notes.txt").write_text("mine")
    child = os.fork()
    if child == 0:
        act_and_die_at(k)
    _, status = os.waitpid(child, 0)
    found.append(state())
    # the same job once more, then another one: as if nothing had happened, and nothing is left over
    if sys.argv[2] != "rollback":
        promote(new, registry)
        assert state() == (1 if sys.argv[2] == "first promotion" else 2)
    last = promote(third, registry)
    last.load()
    fingerprints = {step.fingerprint for step in last.history}
    assert set(os.listdir(registry / "models")) == fingerprints, os.listdir(registry / "models")
    beside = {"notes.txt"} if pristine.exists() else set()
    assert set(os.listdir(registry)) == {"registry.json", "models"} | beside, os.listdir(registry)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        break
print(json.dumps(found))
"""
)

WRITE = (
    MODELS
    + """
name, n = sys.argv[2], int(sys.argv[3])
models = [saved("platt", 0.01 * (1 + k) + (0.2 if name == "b" else 0)) for k in range(2)]
print("ready", flush=True)
sys.stdin.readline()
seen = []
for k in range(n):
    seen.append(promote(models[k % 2], place / "registry").history)
    if k % 3 == 2:
        seen.append(rollback(place / "registry").history)
print(json.dumps([[len(history), history[-1].action, history[-1].fingerprint] for history in seen]))
"""
)

READ = (
    MODELS
    + """
print("ready", flush=True)
sys.stdin.readline()
n_reads = n_before = 0
while not (place / "stop").exists():
    found = read_registry(place / "registry")
    found.load()
    assert len(found.history) >= n_before
    n_before = len(found.history)
    n_reads += 1
print(n_reads)
"""
)


def run(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def quick_place(tmp_path):
    """A folder on a disk in memory where there is one: thousands of synced writes take minutes on some disks."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("action", "before", "after"), [("first promotion", 0, 1), ("rollback", 2, 1)])
def test_killed_at_every_call_the_old_generation_or_the_new_one_is_in_force(quick_place, action, before, after):
    child = run(KILL_EVERYWHERE, quick_place, action)
    found = json.loads(child.communicate()[0])
    assert child.returncode == 0
    assert len(found) > 20
    # one step: the old generation up to some call, the new one from then on
    n_before = found.count(before)
    assert found == [before] * n_before + [after] * (len(found) - n_before)
    assert 0 < n_before < len(found)


@pytest.mark.timeout(300)
def test_two_writers_lose_no_step_and_disturb_no_reader(quick_place):
    n = 9
    run(WRITE, quick_place, "b", 1).communicate("\n")
    processes = [run(WRITE, quick_place, "a", n), run(WRITE, quick_place, "b", n), run(READ, quick_place)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    *writers, reader = processes
    seen = [step for writer in writers for step in json.loads(writer.communicate()[0])]
    assert [writer.returncode for writer in writers] == [0, 0]
    (quick_place / "stop").touch()
    assert int(reader.communicate()[0]) > 10
    assert reader.returncode == 0

    from monocal.monitoring.registry import read_registry

    history = read_registry(quick_place / "registry").history
    # what a writer was told is in the history for good, at its place
    assert all((history[at - 1].action, history[at - 1].fingerprint) == (act, name) for at, act, name in seen)
    assert {at for at, _, _ in seen} >= set(range(2, len(history) + 1))
    assert sum(step.action == "rollback" for step in history) == 2 * (n // 3)
    assert sorted(os.listdir(quick_place / "registry")) == ["models", "registry.json"]
