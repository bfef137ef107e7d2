"""A promotion or rollback that is killed at any moment leaves the state before or after; no writer loses a step."""

import json
import os
import subprocess
import sys

import pytest

from monocal.monitoring.registry import read_registry

MODELS = """
import json, os, shutil, sys
from pathlib import Path
import monocal
from monocal.monitoring.registry import promote, read_registry, rollback
place = Path(sys.argv[1])
registry = place / "registry"
LOG = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}

def saved(method, level=0):
    model = monocal.fit({**LOG, "pctr": [p + level for p in LOG["pctr"]]}, method=method, score="pctr", label="click")
    return model.save(place / f"{method}{level}")
"""

KILL_EVERYWHERE = """
old, new, third, pristine = saved("none"), saved("platt"), saved("beta"), place / "pristine"
for model in (old, new)[: int(sys.argv[2])]:
    promote(model, pristine)
act = (lambda: rollback(registry)) if sys.argv[2] == "2" else (lambda: promote(new, registry))

found, k, is_whole = [], 0, False
while not is_whole:
    k += 1
    shutil.rmtree(registry, ignore_errors=True)
    if pristine.exists():
        shutil.copytree(pristine, registry)
    is_whole = ends_whole(act, k)
    state = read_registry(registry) if (registry / "registry.json").exists() else None
    found.append(0 if state is None else state.current.generation)
    if state is not None:
        state.load()  # checks the active model to the last byte
    # another job: as if nothing had happened, and nothing is left over but the models of the history
    if sys.argv[2] != "2":
        promote(new, registry)
    last = promote(third, registry)
    last.load()
    assert set(os.listdir(registry / "models")) == {step.fingerprint for step in last.history}
    assert set(os.listdir(registry)) == {"registry.json", "models"}
print(json.dumps(found))
"""

WRITE = """
name, n = sys.argv[2], int(sys.argv[3])
models = [saved("platt", 0.01 * (1 + k) + (0.2 if name == "b" else 0)) for k in range(2)]
print("ready", flush=True)
sys.stdin.readline()
seen = []
for k in range(n):
    seen.append(promote(models[k % 2], registry).history)
    if k % 3 == 2:
        seen.append(rollback(registry).history)
print(json.dumps([[len(history), history[-1].action, history[-1].fingerprint] for history in seen]))
"""

READ = """
print("ready", flush=True)
sys.stdin.readline()
n_reads = n_before = 0
while not (place / "stop").exists():
    found = read_registry(registry)
    found.load()
    assert len(found.history) >= n_before
    n_before = len(found.history)
    n_reads += 1
print(n_reads)
"""


def run(script, *arguments):
    command = [sys.executable, "-c", MODELS + script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 2), (2, 1)])
def test_killed_at_every_call_the_old_generation_or_the_new_one_is_active(quick_place, dying, before, after):
    child = run(dying + KILL_EVERYWHERE, quick_place, before)
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
    *writers, reader = processes = [
        run(WRITE, quick_place, "a", n),
        run(WRITE, quick_place, "b", n),
        run(READ, quick_place),
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    seen = [step for writer in writers for step in json.loads(writer.communicate()[0])]
    (quick_place / "stop").touch()
    assert int(reader.communicate()[0]) > 0
    assert [process.returncode for process in processes] == [0, 0, 0]
    history = read_registry(quick_place / "registry").history
    # every step that a writer was answered with is in the history for good, at its place
    assert all((history[at - 1].action, history[at - 1].fingerprint) == (act, name) for at, act, name in seen)
    assert {at for at, _, _ in seen} >= set(range(2, len(history) + 1))
    assert sum(step.action == "rollback" for step in history) == 2 * (n // 3)
    assert sorted(os.listdir(quick_place / "registry")) == ["models", "registry.json"]
